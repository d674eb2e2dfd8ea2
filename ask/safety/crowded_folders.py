"""Folders that are read-only or hidden as a whole, because too much in them would have to be mounted one by one.

bubblewrap reads all mounts again for each mount that it makes (https://github.com/containers/bubblewrap/issues/384), so
its time grows with the square of their number. If a call creates thousands of protected names in a folder, this
protects more of it, never less.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from ask.errors import SafetyError
from ask.safety.protected_paths import is_in_any
from ask.safety.sandbox_config import HostFilesystem, select_outermost
from ask.text import join_names

MAX_MOUNTS = 1_000
"""Number of mounts in the writable folders above which crowded folders are read-only: these take about 1.5 s."""
MAX_HIDDEN_MOUNTS = 600
"""Number of these above which crowded folders are hidden."""
MAX_POSSIBLE_MOUNTS = 2_500
"""Number of mounts above which nothing is started: bubblewrap accepts 9,000 arguments, and a mount needs three."""
_HIDDEN_FOLDER_MOUNTS = 2
"""Mounts that hide a folder: an empty one, which is then made read-only."""
_MAX_NAMES = 3
_WAY_OUT = "start in it, or add --allow-dir with it"


def limit_mounts(filesystem: HostFilesystem, writable_folders: Sequence[Path]) -> tuple[HostFilesystem, list[str]]:
    """Determine the folders to pin, and those to make read-only or hide as a whole, with notices about these.

    Raises:
        SafetyError: bubblewrap cannot mount everything even then.
    """
    costs = {
        **dict.fromkeys(filesystem.hidden_files, 1),
        **dict.fromkeys(filesystem.hidden_folders, _HIDDEN_FOLDER_MOUNTS),
    }
    excess = sum(costs.values()) - MAX_HIDDEN_MOUNTS
    # The folders above cost nothing themselves; hiding one saves the mounts of everything in it.
    costs = {**dict.fromkeys(_find_parent_folders(costs, writable_folders), 0), **costs}
    hidden = _select_crowded_folders(costs, excess, _HIDDEN_FOLDER_MOUNTS, writable_folders)
    warnings = []
    if hidden:
        names = _format_counts(frozenset(hidden), filesystem.hidden_paths)
        warnings.append(
            f"hidden in this run, because of too many files for secrets in total: {names}; to use one of these "
            f"folders, {_WAY_OUT}"
        )
        filesystem = cover_paths(filesystem._replace(hidden_folders=(*filesystem.hidden_folders, *hidden)))

    hidden_count = len(filesystem.hidden_files) + _HIDDEN_FOLDER_MOUNTS * len(filesystem.hidden_folders)
    read_only, pinned = _select_read_only(filesystem, writable_folders)
    excess = len({*read_only, *pinned}) - (MAX_MOUNTS - min(hidden_count, MAX_HIDDEN_MOUNTS))
    crowded = _select_crowded_folders(dict.fromkeys((*read_only, *pinned), 1), excess, 1, writable_folders)
    if crowded:
        names = _format_counts(frozenset(crowded), (*filesystem.protected_paths, *filesystem.hidden_paths))
        warnings.append(
            f"read-only in this run, because of too many protected files in total: {names}; to change one of these "
            f"folders, {_WAY_OUT}"
        )
        filesystem = filesystem._replace(crowded_folders=(*filesystem.crowded_folders, *crowded))
        read_only, pinned = _select_read_only(filesystem, writable_folders)
    if len(read_only) + len(pinned) + hidden_count > MAX_POSSIBLE_MOUNTS:
        paths = {*read_only, *pinned, *filesystem.hidden_paths}
        folder, count = Counter(path.parent for path in paths).most_common(1)[0]
        raise SafetyError(
            f"safe mode cannot protect the {count:,} files and folders in {folder} that programs run, that may contain "
            "secrets, or that contain such files",
            "start in one of its subfolders, or move them to a folder of their own",
        )
    return filesystem._replace(pinned_folders=pinned), warnings


def cover_paths(filesystem: HostFilesystem) -> HostFilesystem:
    """Leave out the paths in a hidden folder, which are out of reach."""
    folders = frozenset(filesystem.hidden_folders)
    return filesystem._replace(
        **{
            field: tuple(path for path in dict.fromkeys(getattr(filesystem, field)) if folders.isdisjoint(path.parents))
            for field in ("protected_paths", "crowded_folders", "hidden_files", "hidden_folders")
        }
    )


def _find_parent_folders(paths: Iterable[Path], writable_folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders between the writable folders and `paths`: moving one of them would move the path, too."""
    parents = set[Path]()
    for path in paths:
        while (path := path.parent) not in parents and is_in_any(path, writable_folders):
            parents.add(path)
    return tuple(sorted(parents.difference(writable_folders)))


def _select_read_only(
    filesystem: HostFilesystem, writable_folders: Sequence[Path]
) -> tuple[list[Path], tuple[Path, ...]]:
    """Return the outermost read-only paths, and the folders to pin: no call can move what is in a read-only one."""
    read_only = select_outermost(filesystem.read_only_paths)
    covered = frozenset(read_only)
    others = (*filesystem.hidden_paths, *writable_folders)
    paths = [*read_only, *(path for path in others if covered.isdisjoint(path.parents))]
    return read_only, _find_parent_folders(paths, writable_folders)


def _select_crowded_folders(
    costs: Mapping[Path, int], excess: int, crowded_cost: int, writable_folders: Sequence[Path]
) -> list[Path]:
    """Select folders to mount as a whole until there are `excess` fewer mounts, if possible; most crowded ones first.

    `costs` has the number of mounts of each path and of the folders above them, and `crowded_cost` is that of a
    selected folder. A folder that contains a writable one is never selected.
    """
    if excess <= 0:
        return []
    remaining, children = dict(costs), defaultdict[Path, list[Path]](list)
    for path in costs:
        children[path.parent].append(path)
    selected = []
    # Of equally crowded folders the deepest first, which makes the least inaccessible.
    for folder in sorted(children, key=lambda folder: (-len(children[folder]), -len(folder.parts), folder)):
        if excess > 0 and folder in remaining and not any(each.is_relative_to(folder) for each in writable_folders):
            contents: list[Path] = []
            for parent in chain([folder], contents):  # which grows meanwhile
                contents += filter(remaining.__contains__, children.get(parent, ()))
            saving = sum(remaining[path] for path in (folder, *contents)) - crowded_cost
            if saving > 0:
                excess -= saving
                selected.append(folder)
                for path in contents:
                    del remaining[path]
                remaining[folder] = crowded_cost
    return select_outermost(selected)


def _format_counts(folders: frozenset[Path], paths: Iterable[Path]) -> str:
    counts = Counter(chain.from_iterable(folders.intersection(path.parents) for path in paths))
    return join_names([f"{folder} ({count:,})" for folder, count in counts.most_common()], _MAX_NAMES)
