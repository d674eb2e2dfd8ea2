#compdef ask
# ask: completions for zsh 5.5 or later

# make generated writes from here
_ask_arguments() {  # COMMAND
  case $1 in
    '')
      _arguments -s -S -A '-*' \
        '(-p --provider)-p+[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-p --provider)--provider=[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-m --model)-m+[Model to use; without -p also as provider\:model]:NAME:_ask_model' \
        '(-m --model)--model=[Model to use; without -p also as provider\:model]:NAME:_ask_model' \
        '*--fallback=[Models to try in turn if the model cannot answer]:A,B:_ask_fallback' \
        '(--base-url)--base-url=[Base URL of the provider]:URL:' \
        '(--key)--key=[API key]:KEY:' \
        '(-s --system)-s+[Extra system prompt; @file reads a file]:TEXT:_ask_system' \
        '(-s --system)--system=[Extra system prompt; @file reads a file]:TEXT:_ask_system' \
        '*-f+[Attach a file, folder, image, PDF or URL]:PATH:_ask_attachment' \
        '*--file=[Attach a file, folder, image, PDF or URL]:PATH:_ask_attachment' \
        '(--effort)--effort=[Reasoning effort, such as none, low or high]:LEVEL:(none minimal low medium high xhigh max)' \
        '*-o+[Model parameter, such as temperature=0.2]:KEY=VALUE:_ask_parameter' \
        '*--option=[Model parameter, such as temperature=0.2]:KEY=VALUE:_ask_parameter' \
        '(-t --template)-t+[Use a prompt template (see ask templates)]:NAME:_ask_prompt' \
        '(-t --template)--template=[Use a prompt template (see ask templates)]:NAME:_ask_prompt' \
        '*--var=[With -t\: value for a {{placeholder}}]:K=V:' \
        '(-c --continue)-c[Continue this terminal'"'"'s last conversation]' \
        '(-c --continue)--continue[Continue this terminal'"'"'s last conversation]' \
        '(--resume)--resume=[Continue a conversation (see ask history)]:ID:_ask_conversation' \
        '(--unanswered)--unanswered[With -c or --resume\: also send the unanswered question]' \
        '(--no-save)--no-save[Do not save conversations and file backups]' \
        '(--no-tools)--no-tools[Do not offer tools to the model]' \
        '*--disable-tool=[Do not offer these tools]:A,B:_ask_tool' \
        '(--context)--context[Send the project'"'"'s AGENTS.md and skills without asking]' \
        '(--no-context)--no-context[Do not send the project'"'"'s AGENTS.md and skills]' \
        '*--tool=[Offer a Python function as a tool]:FILE\:FUNCTION:_files' \
        '*-T+[Offer the provider'"'"'s own tool, such as web_search]:NAME:(web_search web_fetch code_execution tool_search x_search)' \
        '*--server-tool=[Offer the provider'"'"'s own tool, such as web_search]:NAME:(web_search web_fetch code_execution tool_search x_search)' \
        '(--max-rounds)--max-rounds=[Maximum rounds of tool calls (10)]:N:' \
        '(--max-cost)--max-cost=[Stop calling tools after this many US dollars]:USD:' \
        '(--max-cost-per-day)--max-cost-per-day=[Stop once all runs of a day have cost this many US dollars]:USD:' \
        '(--command-timeout)--command-timeout=[Kill a command after this many seconds (30)]:S:' \
        '(--max-command-timeout)--max-command-timeout=[Longest time that a model may give a command, in seconds (600)]:S:' \
        '(--confirm)--confirm[Ask before each tool call with side effects]' \
        '(-y --yes)-y[Approve everything that --confirm would ask about]' \
        '(-y --yes)--yes[Approve everything that --confirm would ask about]' \
        '(--safe)--safe[Confine tools to this folder, without network]' \
        '(--safe-files)--safe-files[Like --safe, but without a sandbox or commands]' \
        '*--allow-dir=[Safe mode\: further folders that tools may write]:DIR:_files -/' \
        '(--allow-git)--allow-git[Safe mode\: make a git repository outside readable]' \
        '*--allow-host=[Safe mode\: hosts that may be fetched without asking]:HOST:' \
        '*--allow-command-host=[Safe mode\: hosts that commands may reach over HTTPS]:HOST:' \
        '*--allow-tool=[Safe mode\: tools of plugins and MCP servers to allow]:NAME:_ask_tool' \
        '(--cmd)--cmd[Answer with one shell command, and offer to run it]' \
        '(--code)--code[Answer with code only]' \
        '(-x --extract)-x[Print only the last code block of the answer]' \
        '(-x --extract)--extract[Print only the last code block of the answer]' \
        '(--schema)--schema=[Answer with JSON matching a schema (inline, file, or "name, age int")]:S:_files' \
        '(--decide)--decide[Choose the values of --schema, with their probabilities]' \
        '(--json)--json[Print one JSON object at the end]' \
        '(--events)--events[Print events as JSON lines]' \
        '(--input-events)--input-events[Read messages and approvals as JSON lines; implies --events]' \
        '(--no-stream)--no-stream[Do not print the answer while it arrives]' \
        '(--plain)--plain[No color, layout or animation]' \
        '(-q --quiet)-q[Print only errors, and commands and writes that fail, to stderr]' \
        '(-q --quiet)--quiet[Print only errors, and commands and writes that fail, to stderr]' \
        '(-v --verbose)-v[Show tool results, reasoning and token usage]' \
        '(-v --verbose)--verbose[Show tool results, reasoning and token usage]' \
        '(-u --usage)-u[Show token usage and cost]' \
        '(-u --usage)--usage[Show token usage and cost]' \
        '(--color)--color=[Use color\: auto, always or never]:CHOICE:(auto always never)' \
        '(-C --cd)-C+[Work in this folder]:DIR:_files -/' \
        '(-C --cd)--cd=[Work in this folder]:DIR:_files -/' \
        '(--record)--record=[Append requests and answers to this file, for ASK_REPLAY]:FILE:_files' \
        '(--no-stdin)--no-stdin[Do not read stdin]' \
        '(--timeout)--timeout=[Stop if no text arrives for this many seconds (300; 900 for xai)]:S:' \
        '(-V --version)-V[Show the version and exit]' \
        '(-V --version)--version[Show the version and exit]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '1: :_ask_first' \
        '*: :_files' ;;
    acp)
      _arguments -s -S -A '-*' \
        '(-p --provider)-p+[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-p --provider)--provider=[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-m --model)-m+[Model to use; without -p also as provider\:model]:NAME:_ask_model' \
        '(-m --model)--model=[Model to use; without -p also as provider\:model]:NAME:_ask_model' \
        '*-T+[Offer the provider'"'"'s own tool, such as web_search]:NAME:(web_search web_fetch code_execution tool_search x_search)' \
        '*--server-tool=[Offer the provider'"'"'s own tool, such as web_search]:NAME:(web_search web_fetch code_execution tool_search x_search)' \
        '(--max-rounds)--max-rounds=[Maximum rounds of tool calls (10)]:N:' \
        '(--max-cost)--max-cost=[Stop calling tools after this many US dollars]:USD:' \
        '(--safe)--safe[Confine tools to this folder, without network]' \
        '(--safe-files)--safe-files[Like --safe, but without a sandbox or commands]' \
        '*--allow-dir=[Safe mode\: further folders that tools may write]:DIR:_files -/' \
        '(--timeout)--timeout=[Stop if no text arrives for this many seconds (300; 900 for xai)]:S:' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    chat)
      _arguments -s -S -A '-*' \
        '(-p --provider)-p+[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-p --provider)--provider=[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-m --model)-m+[Model to use; without -p also as provider\:model]:NAME:_ask_model' \
        '(-m --model)--model=[Model to use; without -p also as provider\:model]:NAME:_ask_model' \
        '*--fallback=[Models to try in turn if the model cannot answer]:A,B:_ask_fallback' \
        '(--base-url)--base-url=[Base URL of the provider]:URL:' \
        '(--key)--key=[API key]:KEY:' \
        '(-s --system)-s+[Extra system prompt; @file reads a file]:TEXT:_ask_system' \
        '(-s --system)--system=[Extra system prompt; @file reads a file]:TEXT:_ask_system' \
        '*-f+[Attach a file, folder, image, PDF or URL]:PATH:_ask_attachment' \
        '*--file=[Attach a file, folder, image, PDF or URL]:PATH:_ask_attachment' \
        '(--effort)--effort=[Reasoning effort, such as none, low or high]:LEVEL:(none minimal low medium high xhigh max)' \
        '*-o+[Model parameter, such as temperature=0.2]:KEY=VALUE:_ask_parameter' \
        '*--option=[Model parameter, such as temperature=0.2]:KEY=VALUE:_ask_parameter' \
        '(-t --template)-t+[Use a prompt template (see ask templates)]:NAME:_ask_prompt' \
        '(-t --template)--template=[Use a prompt template (see ask templates)]:NAME:_ask_prompt' \
        '*--var=[With -t\: value for a {{placeholder}}]:K=V:' \
        '(-c --continue)-c[Continue this terminal'"'"'s last conversation]' \
        '(-c --continue)--continue[Continue this terminal'"'"'s last conversation]' \
        '(--resume)--resume=[Continue a conversation (see ask history)]:ID:_ask_conversation' \
        '(--unanswered)--unanswered[With -c or --resume\: also send the unanswered question]' \
        '(--no-save)--no-save[Do not save conversations and file backups]' \
        '(--no-tools)--no-tools[Do not offer tools to the model]' \
        '*--disable-tool=[Do not offer these tools]:A,B:_ask_tool' \
        '(--context)--context[Send the project'"'"'s AGENTS.md and skills without asking]' \
        '(--no-context)--no-context[Do not send the project'"'"'s AGENTS.md and skills]' \
        '*--tool=[Offer a Python function as a tool]:FILE\:FUNCTION:_files' \
        '*-T+[Offer the provider'"'"'s own tool, such as web_search]:NAME:(web_search web_fetch code_execution tool_search x_search)' \
        '*--server-tool=[Offer the provider'"'"'s own tool, such as web_search]:NAME:(web_search web_fetch code_execution tool_search x_search)' \
        '(--max-rounds)--max-rounds=[Maximum rounds of tool calls (10)]:N:' \
        '(--max-cost)--max-cost=[Stop calling tools after this many US dollars]:USD:' \
        '(--max-cost-per-day)--max-cost-per-day=[Stop once all runs of a day have cost this many US dollars]:USD:' \
        '(--command-timeout)--command-timeout=[Kill a command after this many seconds (30)]:S:' \
        '(--max-command-timeout)--max-command-timeout=[Longest time that a model may give a command, in seconds (600)]:S:' \
        '(--confirm)--confirm[Ask before each tool call with side effects]' \
        '(-y --yes)-y[Approve everything that --confirm would ask about]' \
        '(-y --yes)--yes[Approve everything that --confirm would ask about]' \
        '(--safe)--safe[Confine tools to this folder, without network]' \
        '(--safe-files)--safe-files[Like --safe, but without a sandbox or commands]' \
        '*--allow-dir=[Safe mode\: further folders that tools may write]:DIR:_files -/' \
        '(--allow-git)--allow-git[Safe mode\: make a git repository outside readable]' \
        '*--allow-host=[Safe mode\: hosts that may be fetched without asking]:HOST:' \
        '*--allow-command-host=[Safe mode\: hosts that commands may reach over HTTPS]:HOST:' \
        '*--allow-tool=[Safe mode\: tools of plugins and MCP servers to allow]:NAME:_ask_tool' \
        '(--json)--json[Print one JSON object at the end]' \
        '(--events)--events[Print events as JSON lines]' \
        '(--no-stream)--no-stream[Do not print the answer while it arrives]' \
        '(--plain)--plain[No color, layout or animation]' \
        '(-q --quiet)-q[Print only errors, and commands and writes that fail, to stderr]' \
        '(-q --quiet)--quiet[Print only errors, and commands and writes that fail, to stderr]' \
        '(-v --verbose)-v[Show tool results, reasoning and token usage]' \
        '(-v --verbose)--verbose[Show tool results, reasoning and token usage]' \
        '(-u --usage)-u[Show token usage and cost]' \
        '(-u --usage)--usage[Show token usage and cost]' \
        '(--color)--color=[Use color\: auto, always or never]:CHOICE:(auto always never)' \
        '(-C --cd)-C+[Work in this folder]:DIR:_files -/' \
        '(-C --cd)--cd=[Work in this folder]:DIR:_files -/' \
        '(--record)--record=[Append requests and answers to this file, for ASK_REPLAY]:FILE:_files' \
        '(--timeout)--timeout=[Stop if no text arrives for this many seconds (300; 900 for xai)]:S:' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    compact)
      _arguments -s -S -A '-*' \
        '(-p --provider)-p+[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-p --provider)--provider=[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-m --model)-m+[Model to use; without -p also as provider\:model]:NAME:_ask_model' \
        '(-m --model)--model=[Model to use; without -p also as provider\:model]:NAME:_ask_model' \
        '(--base-url)--base-url=[Base URL of the provider]:URL:' \
        '(--key)--key=[API key]:KEY:' \
        '*-o+[Model parameter, such as temperature=0.2]:KEY=VALUE:_ask_parameter' \
        '*--option=[Model parameter, such as temperature=0.2]:KEY=VALUE:_ask_parameter' \
        '(--json)--json[Print one JSON object at the end]' \
        '(--no-stream)--no-stream[Do not print the answer while it arrives]' \
        '(--plain)--plain[No color, layout or animation]' \
        '(-q --quiet)-q[Print only errors, and commands and writes that fail, to stderr]' \
        '(-q --quiet)--quiet[Print only errors, and commands and writes that fail, to stderr]' \
        '(-v --verbose)-v[Show tool results, reasoning and token usage]' \
        '(-v --verbose)--verbose[Show tool results, reasoning and token usage]' \
        '(--timeout)--timeout=[Stop if no text arrives for this many seconds (300; 900 for xai)]:S:' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_conversation' ;;
    compare)
      _arguments -s -S -A '-*' \
        '(-p --provider)-p+[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-p --provider)--provider=[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-s --system)-s+[Extra system prompt; @file reads a file]:TEXT:_ask_system' \
        '(-s --system)--system=[Extra system prompt; @file reads a file]:TEXT:_ask_system' \
        '*-f+[Attach a file, folder, image, PDF or URL]:PATH:_ask_attachment' \
        '*--file=[Attach a file, folder, image, PDF or URL]:PATH:_ask_attachment' \
        '(--effort)--effort=[Reasoning effort, such as none, low or high]:LEVEL:(none minimal low medium high xhigh max)' \
        '*-o+[Model parameter, such as temperature=0.2]:KEY=VALUE:_ask_parameter' \
        '*--option=[Model parameter, such as temperature=0.2]:KEY=VALUE:_ask_parameter' \
        '*-T+[Offer the provider'"'"'s own tool, such as web_search]:NAME:(web_search web_fetch code_execution tool_search x_search)' \
        '*--server-tool=[Offer the provider'"'"'s own tool, such as web_search]:NAME:(web_search web_fetch code_execution tool_search x_search)' \
        '(--plain)--plain[No color, layout or animation]' \
        '(-q --quiet)-q[Print only errors, and commands and writes that fail, to stderr]' \
        '(-q --quiet)--quiet[Print only errors, and commands and writes that fail, to stderr]' \
        '(--record)--record=[Append requests and answers to this file, for ASK_REPLAY]:FILE:_files' \
        '(--no-stdin)--no-stdin[Do not read stdin]' \
        '(--timeout)--timeout=[Stop if no text arrives for this many seconds (300; 900 for xai)]:S:' \
        '*-m+[Models to ask]:A,B:_ask_model' \
        '*--model=[Models to ask]:A,B:_ask_model' \
        '(--race)--race[Print the first complete answer; cancel the others]' \
        '(--judge)--judge=[Have this model pick and explain the best answer]:NAME:_ask_model' \
        '(--combine)--combine=[Have this model combine the answers into one]:NAME:_ask_model' \
        '(--json)--json[Print one JSON object at the end, as in a pipe]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    config)
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '1: :_ask_first' \
        '*: :' ;;
    'config list')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'config get')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print the value as JSON]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_key' ;;
    'config set')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_setting' ;;
    'config unset')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_key' ;;
    'config path')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'config edit')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    context)
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '1: :_ask_first' \
        '*: :' ;;
    'context list')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'context trust')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_files -/' ;;
    'context forget')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_files -/' ;;
    doctor)
      _arguments -s -S -A '-*' \
        '(--offline)--offline[Do not contact the providers]' \
        '(-v --verbose)-v[Also show the versions of packages]' \
        '(-v --verbose)--verbose[Also show the versions of packages]' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    events)
      _arguments -s -S -A '-*' \
        '(--schema)--schema[Print the JSON Schema of the lines]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    help)
      _arguments -s -S -A '-*' \
        '(--all)--all[Also show what is rarely needed]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :(acp chat compact compare config context doctor events help history hooks import init keys login logout map mcp models providers safe skills templates tools undo version)' ;;
    history)
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '1: :_ask_first' \
        '*: :' ;;
    'history list')
      _arguments -s -S -A '-*' \
        '(-n --limit)-n+[List the newest N; 0 lists all]:N:' \
        '(-n --limit)--limit=[List the newest N; 0 lists all]:N:' \
        '(--here)--here[List only conversations from this folder]' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'history show')
      _arguments -s -S -A '-*' \
        '(-n --last)-n+[Show the last N runs]:N:' \
        '(-n --last)--last=[Show the last N runs]:N:' \
        '(--tools)--tools[Show full tool arguments and results]' \
        '(--json)--json[Print the conversation as JSON, in the export format]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_conversation' ;;
    'history search')
      _arguments -s -S -A '-*' \
        '(-n --limit)-n+[Show the newest N; 0 shows all]:N:' \
        '(-n --limit)--limit=[Show the newest N; 0 shows all]:N:' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'history export')
      _arguments -s -S -A '-*' \
        '(--all)--all[Export all conversations, oldest first]' \
        '(--format)--format=[Output format (default\: by the file name, or md)]:CHOICE:(md json html)' \
        '(--json)--json[Same as --format json]' \
        '(-o --output)-o+[Write to this file, replacing it]:FILE:_files' \
        '(-o --output)--output=[Write to this file, replacing it]:FILE:_files' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_conversation' ;;
    'history import')
      _arguments -s -S -A '-*' \
        '(--as-new)--as-new[Import a conversation under a new id if its id is taken]' \
        '(--json)--json[Print a JSON array of results]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_files' ;;
    'history delete')
      _arguments -s -S -A '-*' \
        '(--older-than)--older-than=[Delete conversations unused for this long\: 12h, 30d, 6mo, 1y]:AGE:' \
        '(-y --yes)-y[Do not ask for confirmation]' \
        '(-y --yes)--yes[Do not ask for confirmation]' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_conversation' ;;
    'history stats')
      _arguments -s -S -A '-*' \
        '(--days)--days=[Include the last N days (30)]:N:' \
        '(--json)--json[Print one JSON object]' \
        '(--html)--html=[Write an HTML report to FILE, replacing it; - for stdout]:FILE:_files' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    hooks)
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '1: :_ask_first' \
        '*: :' ;;
    'hooks list')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'hooks test')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :(run_start before_tool after_tool run_end notification)' ;;
    import)
      _arguments -s -S -A '-*' \
        '(--keys --no-keys)--keys[Import API keys, or not, without asking]' \
        '(--keys --no-keys)--no-keys[Import API keys, or not, without asking]' \
        '(--json)--json[Print one JSON object]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :(llm aichat)' ;;
    init)
      _arguments -s -S -A '-*' \
        '(--key)--key=[Key that turns words into a command (alt-a), or none]:KEYS:' \
        '(--explain-key)--explain-key=[Key that explains a failure (alt-e), or none]:KEYS:' \
        '(--install)--install[Install completions where the shell finds them]' \
        '(--uninstall)--uninstall[Remove installed completions]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :(bash zsh fish)' ;;
    keys)
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '1: :_ask_first' \
        '*: :' ;;
    'keys set')
      _arguments -s -S -A '-*' \
        '(--keyring)--keyring[Save it in the system keyring instead of a file]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_provider' ;;
    'keys list')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'keys remove')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_provider' ;;
    login)
      _arguments -s -S -A '-*' \
        '(--account)--account=[Sign in to this account, which may be new]:NAME:' \
        '(--use)--use=[Use this account, without signing in again]:NAME:' \
        '(--keyring)--keyring[Save the tokens in the system keyring instead of a file]' \
        '(--no-browser)--no-browser[Print the URL, and ask for the one it redirects to]' \
        '(--port)--port=[Port of this machine for the redirect]:N:' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :(chatgpt)' ;;
    logout)
      _arguments -s -S -A '-*' \
        '(--account)--account=[Sign out of this account, not the current one]:NAME:' \
        '(--all)--all[Sign out of all accounts]' \
        '(--forget)--forget[Also forget the account, so that the next sign-in registers it anew]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :(chatgpt)' ;;
    map)
      _arguments -s -S -A '-*' \
        '(-p --provider)-p+[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-p --provider)--provider=[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(--key)--key=[API key]:KEY:' \
        '(-s --system)-s+[Extra system prompt; @file reads a file]:TEXT:_ask_system' \
        '(-s --system)--system=[Extra system prompt; @file reads a file]:TEXT:_ask_system' \
        '(--effort)--effort=[Reasoning effort, such as none, low or high]:LEVEL:(none minimal low medium high xhigh max)' \
        '*-o+[Model parameter, such as temperature=0.2]:KEY=VALUE:_ask_parameter' \
        '*--option=[Model parameter, such as temperature=0.2]:KEY=VALUE:_ask_parameter' \
        '*--var=[With -t\: value for a {{placeholder}}]:K=V:' \
        '*-T+[Offer the provider'"'"'s own tool, such as web_search]:NAME:(web_search web_fetch code_execution tool_search x_search)' \
        '*--server-tool=[Offer the provider'"'"'s own tool, such as web_search]:NAME:(web_search web_fetch code_execution tool_search x_search)' \
        '(--max-cost-per-day)--max-cost-per-day=[Stop once all runs of a day have cost this many US dollars]:USD:' \
        '(--decide)--decide[Choose the values of --schema, with their probabilities]' \
        '(--plain)--plain[No color, layout or animation]' \
        '(-q --quiet)-q[Print only errors, and commands and writes that fail, to stderr]' \
        '(-q --quiet)--quiet[Print only errors, and commands and writes that fail, to stderr]' \
        '(--record)--record=[Append requests and answers to this file, for ASK_REPLAY]:FILE:_files' \
        '(-O --output)-O+[Write a file or sqlite\:FILE?table=T instead of JSONL to stdout]:FILE:_files' \
        '(-O --output)--output=[Write a file or sqlite\:FILE?table=T instead of JSONL to stdout]:FILE:_files' \
        '*-m+[Models to ask]:A,B:_ask_model' \
        '*--model=[Models to ask]:A,B:_ask_model' \
        '*--base-url=[Base URL of the provider; repeat to share the rows among several]:URL:' \
        '*-f+[Attach a file to each row, such as {{path}}]:PATH:_ask_attachment' \
        '*--file=[Attach a file to each row, such as {{path}}]:PATH:_ask_attachment' \
        '(-t --template)-t+[Use this template as the prompt; all arguments are inputs]:NAME:_ask_prompt' \
        '(-t --template)--template=[Use this template as the prompt; all arguments are inputs]:NAME:_ask_prompt' \
        '(--schema)--schema=[Answer with JSON matching a schema; one column per field]:S:_files' \
        '(--input-format)--input-format=[Format of the input (default\: by file name)]:CHOICE:(jsonl json csv tsv lines nul files parquet arrow xlsx sqlite)' \
        '(--delimiter)--delimiter=[Character between the columns of CSV\: '"'"';'"'"' or tab]:C:' \
        '(--encoding)--encoding=[Encoding of the input, such as cp1252]:NAME:(utf-8 utf-16 cp1252 cp1250 cp1251 cp932 gb18030)' \
        '(-0 --null)-0[Rows of text are separated by NUL, not newlines]' \
        '(-0 --null)--null[Rows of text are separated by NUL, not newlines]' \
        '(--sheet)--sheet=[Read this sheet of an Excel workbook (default\: the first)]:NAME:' \
        '(--files)--files[Treat each INPUT file as one row, even a table]' \
        '(-j --jobs)-j+[Send N requests at a time (auto\: adapt to the service)]:N:' \
        '(-j --jobs)--jobs=[Send N requests at a time (auto\: adapt to the service)]:N:' \
        '(--rpm)--rpm=[Send at most N requests a minute]:N:' \
        '(--tpm)--tpm=[Use at most N tokens a minute]:N:' \
        '(--csv-safe)--csv-safe[Write cells such as =1+1 to CSV and TSV as text, not as formulas]' \
        '(--columns)--columns=[Write these columns (a,b), or all, with latency and tries]:NAMES:' \
        '(--review)--review=[With --decide\: also write the rows with a probability below P to FILE]:P FILE:' \
        '(--report)--report=[Write an HTML report on the rows, failures and answers to FILE]:FILE:_files' \
        '*--score=[Compare answers with this column of labels (or FIELD=COLUMN)]:COLUMN:' \
        '(--unordered)--unordered[Write rows as they finish, not in the order of the input]' \
        '(--limit)--limit=[Read only the first N rows]:N:' \
        '(--sample)--sample=[Use a random but reproducible sample of N rows]:N:' \
        '(--shard)--shard=[Use every Nth row, from row I (auto\: as Slurm or Kubernetes says)]:I/N:(auto)' \
        '(--merge)--merge=[Join the outputs of all shards (the arguments) in a file]:FILE:_files' \
        '(--dry-run)--dry-run[Estimate rows, tokens and the price; send nothing]' \
        '(--no-dedupe)--no-dedupe[Send rows with identical prompts one by one, not once]' \
        '(--retry-failed)--retry-failed[Send the failed rows of earlier runs again]' \
        '(--fresh)--fresh[Start over\: forget earlier answers and replace the output file]' \
        '(--max-cost)--max-cost=[Stop once the job has cost this many US dollars]:USD:' \
        '(--max-failures)--max-failures=[Stop after N failed rows, or N%]:N:' \
        '(--tools)--tools[Let the model run tools, in a process for each row]' \
        '(--safe)--safe[With --tools\: confine each row to a working copy, without network]' \
        '(--context)--context[With --tools\: send the project'"'"'s AGENTS.md and skills to each row]' \
        '(--safe-files)--safe-files[With --tools\: like --safe, but without a sandbox or commands]' \
        '(--workdir-template)--workdir-template=[With --tools\: run each row in a copy of this folder]:DIR:_files -/' \
        '(--max-rounds)--max-rounds=[With --tools\: allow N tool rounds (10)]:N:' \
        '(--wait)--wait=[Wait this long if the service fails (30m; 0\: stop)]:TIME:' \
        '(--batch)--batch[Use the provider'"'"'s batch API\: cheaper, answers within a day]' \
        '(--completion-window)--completion-window=[Have OpenAI answer within 2h or 8h, at a discount]:TIME:(2h 8h)' \
        '(--detach)--detach[With --batch\: submit and exit; run again to collect the answers]' \
        '(--cancel)--cancel[With --batch\: cancel the batch and keep its answers so far]' \
        '(--poll-interval)--poll-interval=[With --batch\: check every S seconds (2 to 60)]:S:' \
        '(--engine)--engine=[Run the rows on a Dask cluster]:dask[=ADDRESS]:(dask)' \
        '(--timeout)--timeout=[Give up on an answer after S seconds (300)]:S:' \
        '(--no-save)--no-save[Delete the saved answers once the job is complete]' \
        '(--ledger)--ledger=[Save the answers in this database, not in the data folder]:FILE:_files' \
        '(--list)--list[List jobs]' \
        '(--json)--json[With --list, or --score of an output\: print JSON]' \
        '(--forget)--forget=[Delete a job and its answers; output files stay]:ID:_ask_job' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_files' ;;
    mcp)
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '1: :_ask_first' \
        '*: :' ;;
    'mcp list')
      _arguments -s -S -A '-*' \
        '(--tools)--tools[Start all servers and list their tools]' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_server' ;;
    'mcp resources')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_server' ;;
    'mcp prompts')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_server' ;;
    'mcp add')
      _arguments -s -S -A '-*' \
        '*--env=[Environment variable for the command]:K=V:' \
        '*--header=[HTTP header for the URL]:K=V:' \
        '*--oauth=[Setting for signing in, such as client_id]:K=V:' \
        '(--cwd)--cwd=[Working directory of the command]:DIR:_files -/' \
        '(--timeout)--timeout=[Allow S seconds for starting (10)]:S:' \
        '*--only=[Offer only this tool; repeatable]:TOOL:' \
        '(--sse)--sse[Use the older SSE transport for the URL]' \
        '(--from)--from=[Import servers from another program'"'"'s settings]:FILE:_files' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_files' ;;
    'mcp remove')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_server' ;;
    'mcp login')
      _arguments -s -S -A '-*' \
        '(--no-browser)--no-browser[Print the URL, and ask for the one it redirects to]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_server' ;;
    'mcp logout')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_server' ;;
    'mcp test')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_server' ;;
    'mcp serve')
      _arguments -s -S -A '-*' \
        '(--tools)--tools[Offer tools to the models that are asked]' \
        '(--history)--history[Let callers search the saved conversations]' \
        '(-p --provider)-p+[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-p --provider)--provider=[Provider to use (see ask providers)]:NAME:_ask_provider' \
        '(-m --model)-m+[Model to use; without -p also as provider\:model]:NAME:_ask_model' \
        '(-m --model)--model=[Model to use; without -p also as provider\:model]:NAME:_ask_model' \
        '(--no-save)--no-save[Do not save conversations and file backups]' \
        '(--max-rounds)--max-rounds=[Maximum rounds of tool calls (10)]:N:' \
        '(--max-cost)--max-cost=[Stop calling tools after this many US dollars]:USD:' \
        '(--confirm)--confirm[Ask before each tool call with side effects]' \
        '(--safe)--safe[Confine tools to this folder, without network]' \
        '(--safe-files)--safe-files[Like --safe, but without a sandbox or commands]' \
        '(--timeout)--timeout=[Stop if no text arrives for this many seconds (300; 900 for xai)]:S:' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    models)
      _arguments -s -S -A '-*' \
        '(-p --provider)-p+[Provider whose models to list]:NAME:_ask_provider' \
        '(-p --provider)--provider=[Provider whose models to list]:NAME:_ask_provider' \
        '(--timeout)--timeout=[Stop if nothing arrives for S seconds (30)]:S:' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    providers)
      _arguments -s -S -A '-*' \
        '(--all)--all[Include the services that have no key]' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    safe)
      _arguments -s -S -A '-*' \
        '(--files)--files[Check --safe-files instead]' \
        '(--forget)--forget=[Forget what earlier runs hid or protected at PATH]:PATH:_files' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    skills)
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '1: :_ask_first' \
        '*: :' ;;
    'skills list')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'skills show')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_skill' ;;
    'skills add')
      _arguments -s -S -A '-*' \
        '(--all)--all[Install all skills of the repository]' \
        '(--ref)--ref=[The branch, tag or commit to install from]:REF:' \
        '(-y --yes)-y[Do not ask for confirmation]' \
        '(-y --yes)--yes[Do not ask for confirmation]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_files -/' ;;
    'skills update')
      _arguments -s -S -A '-*' \
        '(--force)--force[Also replace skills that you have changed]' \
        '(-y --yes)-y[Do not ask for confirmation]' \
        '(-y --yes)--yes[Do not ask for confirmation]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_skill' ;;
    'skills remove')
      _arguments -s -S -A '-*' \
        '(-y --yes)-y[Do not ask for confirmation]' \
        '(-y --yes)--yes[Do not ask for confirmation]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_skill' ;;
    'skills check')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_files -/' ;;
    templates)
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '1: :_ask_first' \
        '*: :' ;;
    'templates list')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'templates show')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print one JSON object]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_template' ;;
    'templates new')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'templates delete')
      _arguments -s -S -A '-*' \
        '(-y --yes)-y[Do not ask for confirmation]' \
        '(-y --yes)--yes[Do not ask for confirmation]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_template' ;;
    'templates edit')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_template' ;;
    tools)
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '1: :_ask_first' \
        '*: :' ;;
    'tools list')
      _arguments -s -S -A '-*' \
        '*--tool=[Also list this Python function]:FILE\:FUNCTION:_files' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'tools approvals')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'tools forget')
      _arguments -s -S -A '-*' \
        '(--all)--all[Forget all approvals]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_approval' ;;
    undo)
      _arguments -s -S -A '-*' \
        '(--all)--all[Undo all runs of the conversation]' \
        '(--redo)--redo[Reverse the last undo]' \
        '(-n --dry-run)-n[Only show the diff]' \
        '(-n --dry-run)--dry-run[Only show the diff]' \
        '(--list)--list[Only list the files and what would happen to them]' \
        '(--force)--force[Also restore files that have changed since]' \
        '(-y --yes)-y[Do not ask; without ID, undo only the last run]' \
        '(-y --yes)--yes[Do not ask; without ID, undo only the last run]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_conversation' ;;
    version)
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
  esac
}
_ask_commands() {  # COMMAND: what it consists of
  case $1 in
    '') reply=('acp:Be an agent in an editor' 'chat:Chat with a model' 'compact:Summarize older messages of a conversation' 'compare:Ask several models the same question' 'config:Show and change settings' 'context:List or forget trusted projects' 'doctor:Check the installation and suggest fixes' 'events:Print the JSON Schema of events (--events)' 'help:Show the help of ask or a command' 'history:List, search, export and delete conversations' 'hooks:List and try the commands that run at events' 'import:Import the data of llm or aichat' 'init:Set up ask in bash, zsh or fish' 'keys:Manage API keys' 'login:Sign in to a provider, in place of a key' 'logout:Sign out of a provider' 'map:Ask one prompt about many rows or files' 'mcp:Manage MCP servers' 'models:List a provider'"'"'s models' 'providers:List the providers' 'safe:Check whether --safe works here' 'skills:List, install and check Agent Skills' 'templates:Manage prompt templates (-t)' 'tools:List the tools available to models, and manage approvals' 'undo:Restore the files that a run changed' 'version:Print the version') ;;
    config) reply=('list:List all settings, their values, and where they are set' 'get:Print the value of a setting' 'set:Change a setting in config.toml' 'unset:Remove a setting from config.toml' 'path:Print the path of config.toml' 'edit:Edit config.toml in your editor') ;;
    context) reply=('list:List the projects that you were asked about' 'trust:Trust a project with its current instructions' 'forget:Forget a project, so that ask asks again') ;;
    history) reply=('list:List conversations, newest first' 'show:Show a conversation' 'search:Search all conversations' 'export:Export conversations as Markdown, JSON or HTML' 'import:Import conversations from a JSON file' 'delete:Delete conversations' 'stats:Show runs, tokens and cost by day, model and tool') ;;
    hooks) reply=('list:List the hooks of config.toml' 'test:Run the hooks for an event, and print what they decide') ;;
    keys) reply=('set:Save the key of PROVIDER, typed without echo or read from standard input' 'list:List the providers that have a key, and where it is set' 'remove:Remove the saved key of PROVIDER') ;;
    mcp) reply=('list:List the MCP servers, or the tools of one' 'resources:List the resources of MCP servers, for -f' 'prompts:List the prompts of MCP servers, for -t' 'add:Add an MCP server to config.toml' 'remove:Remove an MCP server from config.toml' 'login:Sign in to a remote MCP server in the browser' 'logout:Sign out of a remote MCP server' 'test:Start MCP servers and check that they work' 'serve:Be an MCP server that asks models') ;;
    skills) reply=('list:List the skills of this project, and your own' 'show:Print a skill' 'add:Install skills from a git repository, after showing their files' 'update:Update installed skills, by default all, after showing what changes in their' 'remove:Remove skills that ask skills add has installed' 'check:Check skills against the specification') ;;
    templates) reply=('list:List the templates, yours and the built-in ones' 'show:Print a template' 'new:Create a template' 'delete:Delete a template' 'edit:Edit a template, or a copy of a built-in one') ;;
    tools) reply=('list:List the tools available to models' 'approvals:List the remembered approvals' 'forget:Forget remembered approvals, so that ask asks again') ;;
    *) reply=() ;;
  esac
}
_ask_tools=(read_file write_file edit_file list_dir bash fetch_url search_web)
_ask_keys=(provider model fallback system max_rounds max_cost max_cost_per_day timeout stream stdin_limit footer context_limit notifications server_tools tools.enabled tools.disabled tools.piped tools.command_timeout tools.max_command_timeout tools.confirm tools.allow tools.deny history.enabled search.engine mcp.files safe.enabled safe.level safe.allow_dirs safe.allow_git safe.allow_hosts safe.allow_command_hosts safe.allow_tools safe.environment context.files skills.folders media_dir attachments.keep_location traces trace_content network.tries network.backoff)
_ask_parameters=(frequency_penalty max_tokens presence_penalty reasoning_effort seed stop temperature top_k top_p)
_ask_efforts=(none minimal low medium high xhigh max)
# to here

_ask() {
  local ask_command='' curcontext=$curcontext place
  local -a reply
  _ask_commands ''
  # A subcommand is the very first word, and those of a group come right behind it.
  while (( CURRENT > 2 )) && (( ${reply[(I)${words[2]}:*]} )); do
    ask_command+=${ask_command:+ }$words[2]
    shift words
    (( CURRENT-- ))
    _ask_commands $ask_command
  done
  if [[ -z $ask_command && $words[2] =~ '^[a-z][a-z0-9_-]*$' ]] && (( CURRENT > 2 )); then
    _ask_lines arguments "${(Q)PREFIX}" "${(@Q)words[2,CURRENT-1]}"
    if [[ $reply[1] == $words[2]$'\t'* ]]; then
      _ask_offer_arguments
      return
    fi
  fi
  # Options may follow a question that is one word.
  for (( place = 2; ! $#ask_command && place < CURRENT; place++ )); do
    if [[ $words[place] != -* && $words[place-1] != -* ]]; then
      if [[ $words[place+1] == -* ]]; then
        words[place]=()
        (( CURRENT-- ))
      fi
      break
    fi
  done
  _ask_arguments $ask_command
}

# Offer what the command of a package takes, the lines of `reply` behind the first one.
_ask_offer_arguments() {
  shift reply
  [[ $PREFIX != --*=* ]] || compset -P '*='
  if (( $#reply )); then
    _ask_offer argument
  else
    _files
  fi
}

_ask_first() {
  local -a reply every
  _ask_commands $ask_command
  every=($reply)
  if [[ -z $ask_command && $CURRENT == 2 ]]; then
    _ask_lines commands
    every+=(${reply/$'\t'/:})
  fi
  if [[ -n $ask_command || $CURRENT == 2 ]]; then
    _describe -t commands command every
  fi
  [[ -n $ask_command ]] || _files
}

# Ask the program, found by its name alone: Tab must not run whatever file is named on the line.
_ask_lines() {
  reply=("${(@f)$(command ask --complete "$@" </dev/null 2>/dev/null)}")
  reply=(${reply:#})
}

_ask_offer() {  # TAG, options of compadd: the words of `reply` in their order, each with its meaning behind a tab
  local -a values=(${reply%%$'\t'*}) shown
  local line tag=$1 expl
  shift
  for line in $reply; do
    shown+=("${line%%$'\t'*}${${line#*$'\t'}:+  -- ${line#*$'\t'}}")
  done
  _wanted -V $tag expl $tag compadd "$@" -l -d shown -a values
}

_ask_provider() {
  local -a reply
  _ask_lines providers
  _ask_offer provider
}

_ask_model() {
  _ask_models models
}

_ask_fallback() {
  _ask_models fallbacks
}

_ask_models() {
  local -a reply every
  _ask_lines $1 "${(Q)PREFIX}" "${(Q)opt_args[-p]-${opt_args[--provider]-}}"
  every=($reply)
  reply=(${(M)every:#*:$'\t'*})
  (( $#reply )) && _ask_offer provider -S ''
  reply=(${every:#*:$'\t'*})
  (( $#reply )) && _ask_offer model
}

_ask_conversation() {
  _ask_titled conversation
}

_ask_job() {
  _ask_titled job
}

_ask_approval() {
  _ask_titled approval
}

# Ids with titles: the program has selected them by id or title.
_ask_titled() {  # KIND
  local -a reply
  _ask_lines $1s "${(Q)PREFIX}"
  if [[ -z $reply || $reply[1] == "${(Q)PREFIX}"* ]]; then
    _ask_offer $1
  else
    (( $#reply == 1 )) || compstate[insert]=menu
    _ask_offer $1 -U
  fi
}

_ask_server() {
  local -a reply
  _ask_lines servers
  _ask_offer server
}

_ask_skill() {
  local -a reply
  _ask_lines skills
  _ask_offer skill
}

_ask_template() {
  local -a reply
  _ask_lines templates
  _ask_offer template
}

_ask_prompt() {
  _ask_addresses prompts
}

_ask_attachment() {
  if [[ $PREFIX == mcp:* ]] || ! _files; then
    _ask_addresses resources
  fi
}

_ask_addresses() {
  local -a reply every
  _ask_lines $1 "${(Q)PREFIX}"
  every=($reply)
  reply=(${every:#*[/:]$'\t'*})
  (( $#reply )) && _ask_offer template
  reply=(${(M)every:#*[/:]$'\t'*})
  (( $#reply )) && _ask_offer server -S ''
}

_ask_system() {
  if compset -P @; then
    _files
  else
    _message 'text, or @file'
  fi
}

_ask_key() {
  (( CURRENT == 2 )) && _wanted key expl 'configuration key' compadd -a _ask_keys
}

_ask_setting() {
  local -a reply
  if (( CURRENT == 2 )); then
    _ask_key
    return
  fi
  _ask_lines values "${(Q)PREFIX}" "${(Q)words[2]}"
  if (( $#reply )); then
    _ask_offer value
  else
    _files
  fi
}

_ask_tool() {
  _values -s , tool $_ask_tools
}

_ask_parameter() {
  if compset -P 'reasoning_effort='; then
    _wanted -V value expl value compadd -a _ask_efforts
  else
    compset -P '*=' || _wanted parameter expl parameter compadd -S = -a _ask_parameters
  fi
}

# Read by `source`, it defines the functions; as an autoloaded function, it also runs.
if [[ $funcstack[1] == _ask ]]; then
  _ask "$@"
elif (( $+functions[compdef] )); then
  compdef _ask ask
fi
