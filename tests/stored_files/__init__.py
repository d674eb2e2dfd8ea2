"""Files that released and unreleased versions of ask wrote; `test_stored_files.py` opens them with this one."""
