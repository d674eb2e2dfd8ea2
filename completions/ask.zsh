#compdef ask
# ask: completions for zsh 5.5 or later

# make generated writes from here
_ask_arguments() {  # COMMAND
  case $1 in
    '')
      _arguments -s -S -A '-*' \
        '(-p --provider)-p+[Ask this provider (ask providers lists them)]:NAME:_ask_provider' \
        '(-p --provider)--provider=[Ask this provider (ask providers lists them)]:NAME:_ask_provider' \
        '(-m --model)-m+[Ask this model; without -p also as provider\:model]:NAME:_ask_model' \
        '(-m --model)--model=[Ask this model; without -p also as provider\:model]:NAME:_ask_model' \
        '*--fallback=[Ask this model next if one cannot answer]:MODEL:_ask_fallback' \
        '(--base-url)--base-url=[Reach the provider at this address]:URL:' \
        '(--key)--key=[Use this API key]:KEY:' \
        '(-s --system)-s+[Add to the system prompt; @file reads a file]:TEXT:_ask_system' \
        '(-s --system)--system=[Add to the system prompt; @file reads a file]:TEXT:_ask_system' \
        '*-f+[Add a file, folder, image, PDF or URL]:PATH:_files' \
        '*--file=[Add a file, folder, image, PDF or URL]:PATH:_files' \
        '*-o+[Set a model parameter]:KEY=VALUE:_ask_parameter' \
        '*--option=[Set a model parameter]:KEY=VALUE:_ask_parameter' \
        '(-t --template)-t+[Ask with this named prompt, or NAME\:TASK (ask prompts list)]:NAME:_ask_template' \
        '(-t --template)--template=[Ask with this named prompt, or NAME\:TASK (ask prompts list)]:NAME:_ask_template' \
        '*--var=[With -t\: fill in a {{placeholder}}]:K=V:' \
        '(-c --continue)-c[Go on with this terminal'"'"'s newest conversation]' \
        '(-c --continue)--continue[Go on with this terminal'"'"'s newest conversation]' \
        '(--resume)--resume=[Go on with this conversation (ask history list)]:ID:_ask_conversation' \
        '(--compact)--compact[With -c or --resume\: first replace what is old by a summary]' \
        '(--no-save)--no-save[Keep neither the conversation nor what files held before]' \
        '(--no-tools)--no-tools[Let the model call no tools]' \
        '*--disable-tool=[Leave these tools out]:A,B:_ask_tool' \
        '*--tool=[Offer this Python function too]:FILE\:FUNCTION:_files' \
        '(--max-rounds)--max-rounds=[Allow N rounds of tool calls (10)]:N:' \
        '(--max-cost)--max-cost=[Stop calling tools after this many US dollars]:USD:' \
        '(--command-timeout)--command-timeout=[Stop a command after S s (30)]:S:' \
        '(--confirm)--confirm[Ask before every call that runs or writes]' \
        '(-y --yes)-y[Answer yes to what --confirm asks]' \
        '(-y --yes)--yes[Answer yes to what --confirm asks]' \
        '(--safe)--safe[Confine what tools can do to this folder, without network]' \
        '*--allow-dir=[With --safe\: also write this folder]:DIR:_files -/' \
        '*--allow-host=[With --safe\: fetch from this host]:HOST:' \
        '*--allow-tool=[With --safe\: offer this tool too]:NAME:_ask_tool' \
        '(--cmd)--cmd[Answer with one shell command; on a terminal, offer to run it]' \
        '(--code)--code[Answer with code alone]' \
        '(--schema)--schema=[Answer with JSON that fits\: a JSON Schema, its file, or name, age int]:S:_files' \
        '(--json)--json[Print one JSON object when done]' \
        '(--events)--events[Print events as JSON lines]' \
        '(--no-stream)--no-stream[Print the answer when it is whole]' \
        '(--plain)--plain[No colour]' \
        '(-q --quiet)-q[Nothing on standard error but the error that ends the run]' \
        '(-q --quiet)--quiet[Nothing on standard error but the error that ends the run]' \
        '(-v --verbose)-v[Show tool results, reasoning and what was used]' \
        '(-v --verbose)--verbose[Show tool results, reasoning and what was used]' \
        '(--no-stdin)--no-stdin[Do not read standard input]' \
        '(--timeout)--timeout=[Give up when the answer has not grown for S s (300)]:S:' \
        '(-V --version)-V[Show the version and exit]' \
        '(-V --version)--version[Show the version and exit]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '1: :_ask_first' \
        '*: :_files' ;;
    chat)
      _arguments -s -S -A '-*' \
        '(-p --provider)-p+[Ask this provider (ask providers lists them)]:NAME:_ask_provider' \
        '(-p --provider)--provider=[Ask this provider (ask providers lists them)]:NAME:_ask_provider' \
        '(-m --model)-m+[Ask this model; without -p also as provider\:model]:NAME:_ask_model' \
        '(-m --model)--model=[Ask this model; without -p also as provider\:model]:NAME:_ask_model' \
        '*--fallback=[Ask this model next if one cannot answer]:MODEL:_ask_fallback' \
        '(--base-url)--base-url=[Reach the provider at this address]:URL:' \
        '(--key)--key=[Use this API key]:KEY:' \
        '(-s --system)-s+[Add to the system prompt; @file reads a file]:TEXT:_ask_system' \
        '(-s --system)--system=[Add to the system prompt; @file reads a file]:TEXT:_ask_system' \
        '*-f+[Add a file, folder, image, PDF or URL]:PATH:_files' \
        '*--file=[Add a file, folder, image, PDF or URL]:PATH:_files' \
        '*-o+[Set a model parameter]:KEY=VALUE:_ask_parameter' \
        '*--option=[Set a model parameter]:KEY=VALUE:_ask_parameter' \
        '(-t --template)-t+[Ask with this named prompt, or NAME\:TASK (ask prompts list)]:NAME:_ask_template' \
        '(-t --template)--template=[Ask with this named prompt, or NAME\:TASK (ask prompts list)]:NAME:_ask_template' \
        '*--var=[With -t\: fill in a {{placeholder}}]:K=V:' \
        '(-c --continue)-c[Go on with this terminal'"'"'s newest conversation]' \
        '(-c --continue)--continue[Go on with this terminal'"'"'s newest conversation]' \
        '(--resume)--resume=[Go on with this conversation (ask history list)]:ID:_ask_conversation' \
        '(--no-save)--no-save[Keep neither the conversation nor what files held before]' \
        '(--no-tools)--no-tools[Let the model call no tools]' \
        '*--disable-tool=[Leave these tools out]:A,B:_ask_tool' \
        '*--tool=[Offer this Python function too]:FILE\:FUNCTION:_files' \
        '(--max-rounds)--max-rounds=[Allow N rounds of tool calls (10)]:N:' \
        '(--max-cost)--max-cost=[Stop calling tools after this many US dollars]:USD:' \
        '(--command-timeout)--command-timeout=[Stop a command after S s (30)]:S:' \
        '(--confirm)--confirm[Ask before every call that runs or writes]' \
        '(-y --yes)-y[Answer yes to what --confirm asks]' \
        '(-y --yes)--yes[Answer yes to what --confirm asks]' \
        '(--safe)--safe[Confine what tools can do to this folder, without network]' \
        '*--allow-dir=[With --safe\: also write this folder]:DIR:_files -/' \
        '*--allow-host=[With --safe\: fetch from this host]:HOST:' \
        '*--allow-tool=[With --safe\: offer this tool too]:NAME:_ask_tool' \
        '(--json)--json[Print one JSON object when done]' \
        '(--events)--events[Print events as JSON lines]' \
        '(--no-stream)--no-stream[Print the answer when it is whole]' \
        '(--plain)--plain[No colour]' \
        '(-q --quiet)-q[Nothing on standard error but the error that ends the run]' \
        '(-q --quiet)--quiet[Nothing on standard error but the error that ends the run]' \
        '(-v --verbose)-v[Show tool results, reasoning and what was used]' \
        '(-v --verbose)--verbose[Show tool results, reasoning and what was used]' \
        '(--timeout)--timeout=[Give up when the answer has not grown for S s (300)]:S:' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    compare)
      _arguments -s -S -A '-*' \
        '*-m+[Ask this model; give it for each one]:NAME:_ask_model' \
        '*--model=[Ask this model; give it for each one]:NAME:_ask_model' \
        '(-p --provider)-p+[Ask this provider'"'"'s models]:NAME:_ask_provider' \
        '(-p --provider)--provider=[Ask this provider'"'"'s models]:NAME:_ask_provider' \
        '(-s --system)-s+[Add to the system prompt; @file reads a file]:TEXT:_ask_system' \
        '(-s --system)--system=[Add to the system prompt; @file reads a file]:TEXT:_ask_system' \
        '*-f+[Add a file, folder, image, PDF or URL]:PATH:_files' \
        '*--file=[Add a file, folder, image, PDF or URL]:PATH:_files' \
        '*-o+[Set a model parameter]:KEY=VALUE:_ask_parameter' \
        '*--option=[Set a model parameter]:KEY=VALUE:_ask_parameter' \
        '(--race)--race[Print the first complete answer; cancel the others]' \
        '(--judge)--judge=[Have this model name the best answer and the reason]:NAME:_ask_model' \
        '(--combine)--combine=[Have this model write one answer from all]:NAME:_ask_model' \
        '(--json)--json[Print one JSON object when done, as in a pipe]' \
        '(--plain)--plain[No color and no columns]' \
        '(-q --quiet)-q[Print nothing to standard error except the final error]' \
        '(-q --quiet)--quiet[Print nothing to standard error except the final error]' \
        '(--no-stdin)--no-stdin[Do not read standard input]' \
        '(--timeout)--timeout=[Give up when an answer has not grown for S s (300)]:S:' \
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
        '*: :_ask_key' ;;
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
    doctor)
      _arguments -s -S -A '-*' \
        '(--offline)--offline[Do not try to reach the providers]' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    help)
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :(chat compare config doctor help history init keys map mcp models prompts providers safe tools undo version)' ;;
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
        '(--here)--here[List those that took place in this directory]' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'history show')
      _arguments -s -S -A '-*' \
        '(-n --last)-n+[Show the last N runs]:N:' \
        '(-n --last)--last=[Show the last N runs]:N:' \
        '(--tools)--tools[Show tool calls with all arguments and their results]' \
        '(--json)--json[Print one JSON object, as an export holds it]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_conversation' ;;
    'history search')
      _arguments -s -S -A '-*' \
        '(-n --limit)-n+[Find N (20); 0 finds all]:N:' \
        '(-n --limit)--limit=[Find N (20); 0 finds all]:N:' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'history export')
      _arguments -s -S -A '-*' \
        '(--all)--all[Export all conversations, the oldest first]' \
        '(--format)--format=[Write it so; else as the file'"'"'s name ends, or md]:CHOICE:(md json html)' \
        '(--json)--json[The same as --format json]' \
        '(-o --output)-o+[Write to this file, in place of what it holds]:FILE:_files' \
        '(-o --output)--output=[Write to this file, in place of what it holds]:FILE:_files' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_conversation' ;;
    'history import')
      _arguments -s -S -A '-*' \
        '(--as-new)--as-new[Give one whose id stands for another conversation here a new id]' \
        '(--json)--json[Print a JSON array of what became of each]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_files' ;;
    'history delete')
      _arguments -s -S -A '-*' \
        '(--older-than)--older-than=[Those not gone on with for so long\: 12h, 30d, 8w, 1y]:AGE:' \
        '(-y --yes)-y[Do not ask]' \
        '(-y --yes)--yes[Do not ask]' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_conversation' ;;
    'history stats')
      _arguments -s -S -A '-*' \
        '(--days)--days=[Count the last N days (30)]:N:' \
        '(--json)--json[Print one JSON object]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    init)
      _arguments -s -S -A '-*' \
        '(--key)--key=[Turn words into a command by this key (alt-a); or none]:KEYS:' \
        '(--explain-key)--explain-key=[Explain a failure by this key (alt-e); or none]:KEYS:' \
        '(--install)--install[Put completions where the shell looks for them]' \
        '(--uninstall)--uninstall[Take them away again]' \
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
    map)
      _arguments -s -S -A '-*' \
        '(-O --output)-O+[Write a .jsonl, .csv or .tsv file instead of JSONL to stdout]:FILE:_files' \
        '(-O --output)--output=[Write a .jsonl, .csv or .tsv file instead of JSONL to stdout]:FILE:_files' \
        '(-p --provider)-p+[Ask this provider]:NAME:_ask_provider' \
        '(-p --provider)--provider=[Ask this provider]:NAME:_ask_provider' \
        '*-m+[Ask this model; repeat to ask several]:NAME:_ask_model' \
        '*--model=[Ask this model; repeat to ask several]:NAME:_ask_model' \
        '(--base-url)--base-url=[Use this base URL for the provider]:URL:' \
        '(--key)--key=[Use this API key]:KEY:' \
        '(-s --system)-s+[Add to the system prompt; @file reads a file]:TEXT:_ask_system' \
        '(-s --system)--system=[Add to the system prompt; @file reads a file]:TEXT:_ask_system' \
        '*-f+[Add a file to each row, such as {{path}}]:PATH:_files' \
        '*--file=[Add a file to each row, such as {{path}}]:PATH:_files' \
        '*-o+[Set a model parameter]:KEY=VALUE:_ask_parameter' \
        '*--option=[Set a model parameter]:KEY=VALUE:_ask_parameter' \
        '(-t --template)-t+[Use this template as the prompt; all arguments are inputs]:NAME:_ask_template' \
        '(-t --template)--template=[Use this template as the prompt; all arguments are inputs]:NAME:_ask_template' \
        '*--var=[With -t\: fill in a placeholder]:K=V:' \
        '(--schema)--schema=[Answer with JSON matching a schema; one column per field]:S:_files' \
        '(--input-format)--input-format=[Format of the input (by file name)]:CHOICE:(jsonl csv tsv lines nul files)' \
        '(-0 --null)-0[Rows of text end with NUL instead of a newline]' \
        '(-0 --null)--null[Rows of text end with NUL instead of a newline]' \
        '(--files)--files[Each INPUT is a row, even a table]' \
        '(-j --jobs)-j+[Send N requests at a time, or auto to adapt to the service (auto)]:N:' \
        '(-j --jobs)--jobs=[Send N requests at a time, or auto to adapt to the service (auto)]:N:' \
        '(--rpm)--rpm=[Send at most N requests a minute]:N:' \
        '(--tpm)--tpm=[Use at most N tokens a minute]:N:' \
        '(--unordered)--unordered[Write rows as they finish, not in the order of the input]' \
        '(--limit)--limit=[Read only the first N rows]:N:' \
        '(--sample)--sample=[Use a random sample of N rows, always the same]:N:' \
        '(--dry-run)--dry-run[Count rows, tokens and the price; send nothing]' \
        '(--retry-failed)--retry-failed[Send rows again that failed in an earlier run]' \
        '(--fresh)--fresh[Start over\: forget earlier answers and replace the output file]' \
        '(--max-cost)--max-cost=[Stop once the whole job has cost this much]:USD:' \
        '(--max-failures)--max-failures=[Stop after N failed rows, or N%]:N:' \
        '(--tools)--tools[Let the model run tools, in a process for each row]' \
        '(--safe)--safe[With --tools\: confine each row to a working copy, without network]' \
        '(--workdir-template)--workdir-template=[With --tools\: run each row in a copy of this folder]:DIR:_files -/' \
        '(--max-rounds)--max-rounds=[With --tools\: allow N tool rounds (10)]:N:' \
        '(--batch)--batch[Use the provider'"'"'s batch API\: cheaper, answers within a day]' \
        '(--detach)--detach[With --batch\: submit, and collect with the same command later]' \
        '(--cancel)--cancel[With --batch\: cancel, and keep the answers so far]' \
        '(--poll-interval)--poll-interval=[With --batch\: check every S seconds (2 to 60)]:S:' \
        '(--engine)--engine=[Run the rows on a Dask cluster]:dask[=ADDRESS]:(dask)' \
        '(--timeout)--timeout=[Give up on an answer after S seconds (300)]:S:' \
        '(--no-save)--no-save[Keep no answers once the job is complete]' \
        '(--plain)--plain[No color]' \
        '(-q --quiet)-q[Print nothing to standard error except the final error]' \
        '(-q --quiet)--quiet[Print nothing to standard error except the final error]' \
        '(--list)--list[List jobs]' \
        '(--forget)--forget=[Delete a job and its answers; output files stay]:ID:_ask_conversation' \
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
        '(--tools)--tools[Start all servers, and list their tools]' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'mcp add')
      _arguments -s -S -A '-*' \
        '*--env=[Set a variable for the command]:K=V:' \
        '*--header=[Send a header to the URL]:K=V:' \
        '(--cwd)--cwd=[Run the command in this folder]:DIR:_files -/' \
        '(--timeout)--timeout=[Let it take S s to start (10)]:S:' \
        '*--only=[Offer this tool of it, and no other that is not named]:TOOL:' \
        '(--sse)--sse[Speak to the URL as older servers want it]' \
        '(--from)--from=[Take servers over from the mcp.json of another program]:FILE:_files' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_files' ;;
    'mcp remove')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'mcp test')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    models)
      _arguments -s -S -A '-*' \
        '(-p --provider)-p+[List this provider'"'"'s models]:NAME:_ask_provider' \
        '(-p --provider)--provider=[List this provider'"'"'s models]:NAME:_ask_provider' \
        '(--timeout)--timeout=[Give up when nothing comes for S s (30)]:S:' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    prompts)
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '1: :_ask_first' \
        '*: :' ;;
    'prompts list')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'prompts show')
      _arguments -s -S -A '-*' \
        '(--json)--json[Print one JSON object, with what the file says]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_template' ;;
    'prompts new')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    'prompts edit')
      _arguments -s -S -A '-*' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :_ask_template' ;;
    providers)
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    safe)
      _arguments -s -S -A '-*' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    tools)
      _arguments -s -S -A '-*' \
        '*--tool=[List this Python function too]:FILE\:FUNCTION:_files' \
        '(--json)--json[Print a JSON array]' \
        '(-h --help)-h[Show this message and exit]' \
        '(-h --help)--help[Show this message and exit]' \
        '*: :' ;;
    undo)
      _arguments -s -S -A '-*' \
        '(--all)--all[Put back what all runs of the conversation changed]' \
        '(--redo)--redo[Bring back what the last undo took away]' \
        '(-n --dry-run)-n[Only show the difference]' \
        '(-n --dry-run)--dry-run[Only show the difference]' \
        '(--list)--list[Only list the files, and what would become of each]' \
        '(--force)--force[Put back also what has changed since]' \
        '(-y --yes)-y[Do not ask]' \
        '(-y --yes)--yes[Do not ask]' \
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
    '') reply=('chat:Talk: one conversation, message after message' 'compare:Ask several models the same question' 'config:See and change the settings' 'doctor:Look for what is missing or broken, and say what to do' 'help:Show the help of ask or of a command' 'history:See, search and keep the saved conversations' 'init:Make ask a part of bash, zsh or fish' 'keys:Keep API keys: set, list, remove' 'map:Ask one prompt about many rows or files' 'mcp:Keep MCP servers, whose tools a model may call' 'models:List a provider'"'"'s models' 'prompts:See and keep named prompts, which -t asks with' 'providers:List the providers' 'safe:Say what --safe would do here, and what is missing for it' 'tools:List the tools that a model may call' 'undo:Put back the files that a run changed' 'version:Print the version') ;;
    config) reply=('list:List every setting with its value, and where that is from' 'get:Print the value of a setting' 'set:Set a setting in config.toml' 'unset:Take a setting out of config.toml' 'path:Print where config.toml is' 'edit:Change config.toml in your editor') ;;
    history) reply=('list:List the conversations, the newest first' 'show:Show a conversation' 'search:Find words in all conversations' 'export:Write conversations as Markdown, JSON or a web page' 'import:Take in what was exported as JSON' 'delete:Delete conversations' 'stats:Tell runs, tokens and cost by day, model and tool') ;;
    keys) reply=('set:Keep the key of PROVIDER, typed without being shown, or read from standard' 'list:List which providers have a key, and where it is from; never the key' 'remove:Forget the kept key of PROVIDER') ;;
    mcp) reply=('list:List the MCP servers, or the tools of one' 'add:Add an MCP server to config.toml' 'remove:Take an MCP server out of config.toml' 'test:Start MCP servers, and say what they are') ;;
    prompts) reply=('list:List the named prompts, yours and those that come with ask' 'show:Print a named prompt' 'new:Make one of your own' 'edit:Change one of yours, or a copy of one that comes with ask') ;;
    *) reply=() ;;
  esac
}
_ask_tools=(read_file write_file edit_file list_dir bash fetch_url search_web)
_ask_keys=(provider model fallback system max_rounds max_cost timeout stream stdin_limit context_limit tools.enabled tools.disabled tools.command_timeout tools.confirm history.enabled search.engine mcp.files safe.enabled safe.allow_dirs safe.allow_hosts safe.allow_tools safe.environment safe.tripwires network.tries network.backoff)
_ask_parameters=(frequency_penalty max_tokens presence_penalty reasoning_effort seed stop temperature top_k top_p)
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

_ask_first() {
  local -a reply
  _ask_commands $ask_command
  if [[ -n $ask_command || $CURRENT == 2 ]]; then
    _describe -t commands command reply
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
  local -a reply
  _ask_lines conversations
  _ask_offer conversation
}

_ask_template() {
  local -a reply
  _ask_lines templates
  _ask_offer template
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

_ask_tool() {
  _values -s , tool $_ask_tools
}

_ask_parameter() {
  compset -P '*=' || _wanted parameter expl parameter compadd -S = -a _ask_parameters
}

# Read by `source`, it defines the functions; as an autoloaded function, it also runs.
if [[ $funcstack[1] == _ask ]]; then
  _ask "$@"
elif (( $+functions[compdef] )); then
  compdef _ask ask
fi
