# ask: completions for fish 3.1 or later

# make generated writes from here
function __ask_valued -a command  # the options of a command that take a value
    switch "$command"
        case ''
            string split ' ' -- '-p --provider -m --model --fallback --base-url --key -s --system -f --file --effort -o --option -t --template --var --resume --disable-tool --tool -T --server-tool --max-rounds --max-cost --max-cost-per-day --command-timeout --max-command-timeout --allow-dir --allow-host --allow-command-host --allow-tool --schema --color -C --cd --record --timeout'
        case 'acp'
            string split ' ' -- '-p --provider -m --model -T --server-tool --max-rounds --max-cost --allow-dir --timeout'
        case 'chat'
            string split ' ' -- '-p --provider -m --model --fallback --base-url --key -s --system -f --file --effort -o --option -t --template --var --resume --disable-tool --tool -T --server-tool --max-rounds --max-cost --max-cost-per-day --command-timeout --max-command-timeout --allow-dir --allow-host --allow-command-host --allow-tool --color -C --cd --record --timeout'
        case 'compact'
            string split ' ' -- '-p --provider -m --model --base-url --key -o --option --timeout'
        case 'compare'
            string split ' ' -- '-p --provider -s --system -f --file --effort -o --option -T --server-tool --record --timeout -m --model --judge --combine'
        case 'config'
            string split ' ' -- ''
        case 'config list'
            string split ' ' -- ''
        case 'config get'
            string split ' ' -- ''
        case 'config set'
            string split ' ' -- ''
        case 'config unset'
            string split ' ' -- ''
        case 'config path'
            string split ' ' -- ''
        case 'config edit'
            string split ' ' -- ''
        case 'context'
            string split ' ' -- ''
        case 'context list'
            string split ' ' -- ''
        case 'context trust'
            string split ' ' -- ''
        case 'context forget'
            string split ' ' -- ''
        case 'doctor'
            string split ' ' -- ''
        case 'events'
            string split ' ' -- ''
        case 'help'
            string split ' ' -- ''
        case 'history'
            string split ' ' -- ''
        case 'history list'
            string split ' ' -- '-n --limit'
        case 'history show'
            string split ' ' -- '-n --last'
        case 'history search'
            string split ' ' -- '-n --limit'
        case 'history export'
            string split ' ' -- '--format -o --output'
        case 'history import'
            string split ' ' -- ''
        case 'history delete'
            string split ' ' -- '--older-than'
        case 'history stats'
            string split ' ' -- '--days --html'
        case 'hooks'
            string split ' ' -- ''
        case 'hooks list'
            string split ' ' -- ''
        case 'hooks test'
            string split ' ' -- ''
        case 'import'
            string split ' ' -- ''
        case 'init'
            string split ' ' -- '--key --explain-key'
        case 'keys'
            string split ' ' -- ''
        case 'keys set'
            string split ' ' -- ''
        case 'keys list'
            string split ' ' -- ''
        case 'keys remove'
            string split ' ' -- ''
        case 'login'
            string split ' ' -- '--account --use --port'
        case 'logout'
            string split ' ' -- '--account'
        case 'map'
            string split ' ' -- '-p --provider --key -s --system --effort -o --option --var -T --server-tool --max-cost-per-day --record -O --output -m --model --base-url -f --file -t --template --schema --input-format --delimiter --encoding --sheet -j --jobs --rpm --tpm --columns --review --report --score --limit --sample --shard --merge --max-cost --max-failures --workdir-template --max-rounds --wait --completion-window --poll-interval --engine --timeout --ledger --forget'
        case 'mcp'
            string split ' ' -- ''
        case 'mcp list'
            string split ' ' -- ''
        case 'mcp resources'
            string split ' ' -- ''
        case 'mcp prompts'
            string split ' ' -- ''
        case 'mcp add'
            string split ' ' -- '--env --header --oauth --cwd --timeout --only --from'
        case 'mcp remove'
            string split ' ' -- ''
        case 'mcp login'
            string split ' ' -- ''
        case 'mcp logout'
            string split ' ' -- ''
        case 'mcp test'
            string split ' ' -- ''
        case 'mcp serve'
            string split ' ' -- '-p --provider -m --model --max-rounds --max-cost --timeout'
        case 'models'
            string split ' ' -- '-p --provider --timeout'
        case 'providers'
            string split ' ' -- ''
        case 'safe'
            string split ' ' -- '--forget'
        case 'skills'
            string split ' ' -- ''
        case 'skills list'
            string split ' ' -- ''
        case 'skills show'
            string split ' ' -- ''
        case 'skills add'
            string split ' ' -- '--ref'
        case 'skills update'
            string split ' ' -- ''
        case 'skills remove'
            string split ' ' -- ''
        case 'skills check'
            string split ' ' -- ''
        case 'templates'
            string split ' ' -- ''
        case 'templates list'
            string split ' ' -- ''
        case 'templates show'
            string split ' ' -- ''
        case 'templates new'
            string split ' ' -- ''
        case 'templates delete'
            string split ' ' -- ''
        case 'templates edit'
            string split ' ' -- ''
        case 'tools'
            string split ' ' -- ''
        case 'tools list'
            string split ' ' -- '--tool'
        case 'tools approvals'
            string split ' ' -- ''
        case 'tools forget'
            string split ' ' -- ''
        case 'undo'
            string split ' ' -- ''
        case 'version'
            string split ' ' -- ''
    end
end
function __ask_commands -a command  # what a command consists of
    switch "$command"
        case ''
            string split ' ' -- 'acp chat compact compare config context doctor events help history hooks import init keys login logout map mcp models providers safe skills templates tools undo version'
        case 'config'
            string split ' ' -- 'list get set unset path edit'
        case 'context'
            string split ' ' -- 'list trust forget'
        case 'history'
            string split ' ' -- 'list show search export import delete stats'
        case 'hooks'
            string split ' ' -- 'list test'
        case 'keys'
            string split ' ' -- 'set list remove'
        case 'mcp'
            string split ' ' -- 'list resources prompts add remove login logout test serve'
        case 'skills'
            string split ' ' -- 'list show add update remove check'
        case 'templates'
            string split ' ' -- 'list show new delete edit'
        case 'tools'
            string split ' ' -- 'list approvals forget'
    end
end
set -g __ask_tools read_file write_file edit_file list_dir bash fetch_url search_web
set -g __ask_keys provider model fallback system max_rounds max_cost max_cost_per_day timeout stream stdin_limit footer context_limit notifications server_tools tools.enabled tools.disabled tools.piped tools.command_timeout tools.max_command_timeout tools.confirm tools.allow tools.deny history.enabled search.engine mcp.files safe.enabled safe.level safe.allow_dirs safe.allow_git safe.allow_hosts safe.allow_command_hosts safe.allow_tools safe.environment context.files skills.folders media_dir attachments.keep_location traces trace_content network.tries network.backoff
set -g __ask_parameters frequency_penalty max_tokens presence_penalty reasoning_effort seed stop temperature top_k top_p
set -g __ask_efforts none minimal low medium high xhigh max
complete -c ask -n '__ask_first \'\'' -f -a acp -d 'Be an agent in an editor'
complete -c ask -n '__ask_first \'\'' -f -a chat -d 'Chat with a model'
complete -c ask -n '__ask_first \'\'' -f -a compact -d 'Summarize older messages of a conversation'
complete -c ask -n '__ask_first \'\'' -f -a compare -d 'Ask several models the same question'
complete -c ask -n '__ask_first \'\'' -f -a config -d 'Show and change settings'
complete -c ask -n '__ask_first \'\'' -f -a context -d 'List or forget trusted projects'
complete -c ask -n '__ask_first \'\'' -f -a doctor -d 'Check the installation and suggest fixes'
complete -c ask -n '__ask_first \'\'' -f -a events -d 'Print the JSON Schema of events (--events)'
complete -c ask -n '__ask_first \'\'' -f -a help -d 'Show the help of ask or a command'
complete -c ask -n '__ask_first \'\'' -f -a history -d 'List, search, export and delete conversations'
complete -c ask -n '__ask_first \'\'' -f -a hooks -d 'List and try the commands that run at events'
complete -c ask -n '__ask_first \'\'' -f -a import -d 'Import the data of llm or aichat'
complete -c ask -n '__ask_first \'\'' -f -a init -d 'Set up ask in bash, zsh or fish'
complete -c ask -n '__ask_first \'\'' -f -a keys -d 'Manage API keys'
complete -c ask -n '__ask_first \'\'' -f -a login -d 'Sign in to a provider, in place of a key'
complete -c ask -n '__ask_first \'\'' -f -a logout -d 'Sign out of a provider'
complete -c ask -n '__ask_first \'\'' -f -a map -d 'Ask one prompt about many rows or files'
complete -c ask -n '__ask_first \'\'' -f -a mcp -d 'Manage MCP servers'
complete -c ask -n '__ask_first \'\'' -f -a models -d 'List a provider\'s models'
complete -c ask -n '__ask_first \'\'' -f -a providers -d 'List the providers'
complete -c ask -n '__ask_first \'\'' -f -a safe -d 'Check whether --safe works here'
complete -c ask -n '__ask_first \'\'' -f -a skills -d 'List, install and check Agent Skills'
complete -c ask -n '__ask_first \'\'' -f -a templates -d 'Manage prompt templates (-t)'
complete -c ask -n '__ask_first \'\'' -f -a tools -d 'List the tools available to models, and manage approvals'
complete -c ask -n '__ask_first \'\'' -f -a undo -d 'Restore the files that a run changed'
complete -c ask -n '__ask_first \'\'' -f -a version -d 'Print the version'
complete -c ask -n '__ask_in \'\'' -s p -l provider -x -a '(__ask_provider)' -d 'Provider to use (see ask providers)'
complete -c ask -n '__ask_in \'\'' -s m -l model -x -a '(__ask_model)' -d 'Model to use; without -p also as provider:model'
complete -c ask -n '__ask_in \'\'' -l fallback -x -a '(__ask_fallback)' -d 'Models to try in turn if the model cannot answer'
complete -c ask -n '__ask_in \'\'' -l base-url -x -d 'Base URL of the provider'
complete -c ask -n '__ask_in \'\'' -l key -x -d 'API key'
complete -c ask -n '__ask_in \'\'' -s s -l system -x -a '(__ask_system)' -d 'Extra system prompt; @file reads a file'
complete -c ask -n '__ask_in \'\'' -s f -l file -r -F -a '(__ask_attachment)' -d 'Attach a file, folder, image, PDF or URL'
complete -c ask -n '__ask_in \'\'' -l effort -x -a 'none minimal low medium high xhigh max' -d 'Reasoning effort, such as none, low or high'
complete -c ask -n '__ask_in \'\'' -s o -l option -x -a '(__ask_parameter)' -d 'Model parameter, such as temperature=0.2'
complete -c ask -n '__ask_in \'\'' -s t -l template -x -a '(__ask_prompt)' -d 'Use a prompt template (see ask templates)'
complete -c ask -n '__ask_in \'\'' -l var -x -d 'With -t: value for a {{placeholder}}'
complete -c ask -n '__ask_in \'\'' -s c -l continue -d 'Continue this terminal\'s last conversation'
complete -c ask -n '__ask_in \'\'' -l resume -x -k -a '(__ask_conversation)' -d 'Continue a conversation (see ask history)'
complete -c ask -n '__ask_in \'\'' -l unanswered -d 'With -c or --resume: also send the unanswered question'
complete -c ask -n '__ask_in \'\'' -l no-save -d 'Do not save conversations and file backups'
complete -c ask -n '__ask_in \'\'' -l no-tools -d 'Do not offer tools to the model'
complete -c ask -n '__ask_in \'\'' -l disable-tool -x -a '(__ask_tool)' -d 'Do not offer these tools'
complete -c ask -n '__ask_in \'\'' -l context -d 'Send the project\'s AGENTS.md and skills without asking'
complete -c ask -n '__ask_in \'\'' -l no-context -d 'Do not send the project\'s AGENTS.md and skills'
complete -c ask -n '__ask_in \'\'' -l tool -r -F -d 'Offer a Python function as a tool'
complete -c ask -n '__ask_in \'\'' -s T -l server-tool -x -a 'web_search web_fetch code_execution tool_search x_search' -d 'Offer the provider\'s own tool, such as web_search'
complete -c ask -n '__ask_in \'\'' -l max-rounds -x -d 'Maximum rounds of tool calls (10)'
complete -c ask -n '__ask_in \'\'' -l max-cost -x -d 'Stop calling tools after this many US dollars'
complete -c ask -n '__ask_in \'\'' -l max-cost-per-day -x -d 'Stop once all runs of a day have cost this many US dollars'
complete -c ask -n '__ask_in \'\'' -l command-timeout -x -d 'Kill a command after this many seconds (30)'
complete -c ask -n '__ask_in \'\'' -l max-command-timeout -x -d 'Longest time that a model may give a command, in seconds (600)'
complete -c ask -n '__ask_in \'\'' -l confirm -d 'Ask before each tool call with side effects'
complete -c ask -n '__ask_in \'\'' -s y -l yes -d 'Approve everything that --confirm would ask about'
complete -c ask -n '__ask_in \'\'' -l safe -d 'Confine tools to this folder, without network'
complete -c ask -n '__ask_in \'\'' -l safe-files -d 'Like --safe, but without a sandbox or commands'
complete -c ask -n '__ask_in \'\'' -l allow-dir -x -a '(__fish_complete_directories)' -d 'Safe mode: further folders that tools may write'
complete -c ask -n '__ask_in \'\'' -l allow-git -d 'Safe mode: make a git repository outside readable'
complete -c ask -n '__ask_in \'\'' -l allow-host -x -d 'Safe mode: hosts that may be fetched without asking'
complete -c ask -n '__ask_in \'\'' -l allow-command-host -x -d 'Safe mode: hosts that commands may reach over HTTPS'
complete -c ask -n '__ask_in \'\'' -l allow-tool -x -a '(__ask_tool)' -d 'Safe mode: tools of plugins and MCP servers to allow'
complete -c ask -n '__ask_in \'\'' -l cmd -d 'Answer with one shell command, and offer to run it'
complete -c ask -n '__ask_in \'\'' -l code -d 'Answer with code only'
complete -c ask -n '__ask_in \'\'' -s x -l extract -d 'Print only the last code block of the answer'
complete -c ask -n '__ask_in \'\'' -l schema -r -F -d 'Answer with JSON matching a schema (inline, file, or "name, age int")'
complete -c ask -n '__ask_in \'\'' -l decide -d 'Choose the values of --schema, with their probabilities'
complete -c ask -n '__ask_in \'\'' -l json -d 'Print one JSON object at the end'
complete -c ask -n '__ask_in \'\'' -l events -d 'Print events as JSON lines'
complete -c ask -n '__ask_in \'\'' -l input-events -d 'Read messages and approvals as JSON lines; implies --events'
complete -c ask -n '__ask_in \'\'' -l no-stream -d 'Do not print the answer while it arrives'
complete -c ask -n '__ask_in \'\'' -l plain -d 'No color, layout or animation'
complete -c ask -n '__ask_in \'\'' -s q -l quiet -d 'Print only errors, and commands and writes that fail, to stderr'
complete -c ask -n '__ask_in \'\'' -s v -l verbose -d 'Show tool results, reasoning and token usage'
complete -c ask -n '__ask_in \'\'' -s u -l usage -d 'Show token usage and cost'
complete -c ask -n '__ask_in \'\'' -l color -x -a 'auto always never' -d 'Use color: auto, always or never'
complete -c ask -n '__ask_in \'\'' -s C -l cd -x -a '(__fish_complete_directories)' -d 'Work in this folder'
complete -c ask -n '__ask_in \'\'' -l record -r -F -d 'Append requests and answers to this file, for ASK_REPLAY'
complete -c ask -n '__ask_in \'\'' -l no-stdin -d 'Do not read stdin'
complete -c ask -n '__ask_in \'\'' -l timeout -x -d 'Stop if no text arrives for this many seconds (300; 900 for xai)'
complete -c ask -n '__ask_in \'\'' -s V -l version -d 'Show the version and exit'
complete -c ask -n '__ask_in \'\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_in \'acp\'' -s p -l provider -x -a '(__ask_provider)' -d 'Provider to use (see ask providers)'
complete -c ask -n '__ask_in \'acp\'' -s m -l model -x -a '(__ask_model)' -d 'Model to use; without -p also as provider:model'
complete -c ask -n '__ask_in \'acp\'' -s T -l server-tool -x -a 'web_search web_fetch code_execution tool_search x_search' -d 'Offer the provider\'s own tool, such as web_search'
complete -c ask -n '__ask_in \'acp\'' -l max-rounds -x -d 'Maximum rounds of tool calls (10)'
complete -c ask -n '__ask_in \'acp\'' -l max-cost -x -d 'Stop calling tools after this many US dollars'
complete -c ask -n '__ask_in \'acp\'' -l safe -d 'Confine tools to this folder, without network'
complete -c ask -n '__ask_in \'acp\'' -l safe-files -d 'Like --safe, but without a sandbox or commands'
complete -c ask -n '__ask_in \'acp\'' -l allow-dir -x -a '(__fish_complete_directories)' -d 'Safe mode: further folders that tools may write'
complete -c ask -n '__ask_in \'acp\'' -l timeout -x -d 'Stop if no text arrives for this many seconds (300; 900 for xai)'
complete -c ask -n '__ask_in \'acp\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'acp\'' -f
complete -c ask -n '__ask_in \'chat\'' -s p -l provider -x -a '(__ask_provider)' -d 'Provider to use (see ask providers)'
complete -c ask -n '__ask_in \'chat\'' -s m -l model -x -a '(__ask_model)' -d 'Model to use; without -p also as provider:model'
complete -c ask -n '__ask_in \'chat\'' -l fallback -x -a '(__ask_fallback)' -d 'Models to try in turn if the model cannot answer'
complete -c ask -n '__ask_in \'chat\'' -l base-url -x -d 'Base URL of the provider'
complete -c ask -n '__ask_in \'chat\'' -l key -x -d 'API key'
complete -c ask -n '__ask_in \'chat\'' -s s -l system -x -a '(__ask_system)' -d 'Extra system prompt; @file reads a file'
complete -c ask -n '__ask_in \'chat\'' -s f -l file -r -F -a '(__ask_attachment)' -d 'Attach a file, folder, image, PDF or URL'
complete -c ask -n '__ask_in \'chat\'' -l effort -x -a 'none minimal low medium high xhigh max' -d 'Reasoning effort, such as none, low or high'
complete -c ask -n '__ask_in \'chat\'' -s o -l option -x -a '(__ask_parameter)' -d 'Model parameter, such as temperature=0.2'
complete -c ask -n '__ask_in \'chat\'' -s t -l template -x -a '(__ask_prompt)' -d 'Use a prompt template (see ask templates)'
complete -c ask -n '__ask_in \'chat\'' -l var -x -d 'With -t: value for a {{placeholder}}'
complete -c ask -n '__ask_in \'chat\'' -s c -l continue -d 'Continue this terminal\'s last conversation'
complete -c ask -n '__ask_in \'chat\'' -l resume -x -k -a '(__ask_conversation)' -d 'Continue a conversation (see ask history)'
complete -c ask -n '__ask_in \'chat\'' -l unanswered -d 'With -c or --resume: also send the unanswered question'
complete -c ask -n '__ask_in \'chat\'' -l no-save -d 'Do not save conversations and file backups'
complete -c ask -n '__ask_in \'chat\'' -l no-tools -d 'Do not offer tools to the model'
complete -c ask -n '__ask_in \'chat\'' -l disable-tool -x -a '(__ask_tool)' -d 'Do not offer these tools'
complete -c ask -n '__ask_in \'chat\'' -l context -d 'Send the project\'s AGENTS.md and skills without asking'
complete -c ask -n '__ask_in \'chat\'' -l no-context -d 'Do not send the project\'s AGENTS.md and skills'
complete -c ask -n '__ask_in \'chat\'' -l tool -r -F -d 'Offer a Python function as a tool'
complete -c ask -n '__ask_in \'chat\'' -s T -l server-tool -x -a 'web_search web_fetch code_execution tool_search x_search' -d 'Offer the provider\'s own tool, such as web_search'
complete -c ask -n '__ask_in \'chat\'' -l max-rounds -x -d 'Maximum rounds of tool calls (10)'
complete -c ask -n '__ask_in \'chat\'' -l max-cost -x -d 'Stop calling tools after this many US dollars'
complete -c ask -n '__ask_in \'chat\'' -l max-cost-per-day -x -d 'Stop once all runs of a day have cost this many US dollars'
complete -c ask -n '__ask_in \'chat\'' -l command-timeout -x -d 'Kill a command after this many seconds (30)'
complete -c ask -n '__ask_in \'chat\'' -l max-command-timeout -x -d 'Longest time that a model may give a command, in seconds (600)'
complete -c ask -n '__ask_in \'chat\'' -l confirm -d 'Ask before each tool call with side effects'
complete -c ask -n '__ask_in \'chat\'' -s y -l yes -d 'Approve everything that --confirm would ask about'
complete -c ask -n '__ask_in \'chat\'' -l safe -d 'Confine tools to this folder, without network'
complete -c ask -n '__ask_in \'chat\'' -l safe-files -d 'Like --safe, but without a sandbox or commands'
complete -c ask -n '__ask_in \'chat\'' -l allow-dir -x -a '(__fish_complete_directories)' -d 'Safe mode: further folders that tools may write'
complete -c ask -n '__ask_in \'chat\'' -l allow-git -d 'Safe mode: make a git repository outside readable'
complete -c ask -n '__ask_in \'chat\'' -l allow-host -x -d 'Safe mode: hosts that may be fetched without asking'
complete -c ask -n '__ask_in \'chat\'' -l allow-command-host -x -d 'Safe mode: hosts that commands may reach over HTTPS'
complete -c ask -n '__ask_in \'chat\'' -l allow-tool -x -a '(__ask_tool)' -d 'Safe mode: tools of plugins and MCP servers to allow'
complete -c ask -n '__ask_in \'chat\'' -l json -d 'Print one JSON object at the end'
complete -c ask -n '__ask_in \'chat\'' -l events -d 'Print events as JSON lines'
complete -c ask -n '__ask_in \'chat\'' -l no-stream -d 'Do not print the answer while it arrives'
complete -c ask -n '__ask_in \'chat\'' -l plain -d 'No color, layout or animation'
complete -c ask -n '__ask_in \'chat\'' -s q -l quiet -d 'Print only errors, and commands and writes that fail, to stderr'
complete -c ask -n '__ask_in \'chat\'' -s v -l verbose -d 'Show tool results, reasoning and token usage'
complete -c ask -n '__ask_in \'chat\'' -s u -l usage -d 'Show token usage and cost'
complete -c ask -n '__ask_in \'chat\'' -l color -x -a 'auto always never' -d 'Use color: auto, always or never'
complete -c ask -n '__ask_in \'chat\'' -s C -l cd -x -a '(__fish_complete_directories)' -d 'Work in this folder'
complete -c ask -n '__ask_in \'chat\'' -l record -r -F -d 'Append requests and answers to this file, for ASK_REPLAY'
complete -c ask -n '__ask_in \'chat\'' -l timeout -x -d 'Stop if no text arrives for this many seconds (300; 900 for xai)'
complete -c ask -n '__ask_in \'chat\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'chat\'' -f
complete -c ask -n '__ask_in \'compact\'' -s p -l provider -x -a '(__ask_provider)' -d 'Provider to use (see ask providers)'
complete -c ask -n '__ask_in \'compact\'' -s m -l model -x -a '(__ask_model)' -d 'Model to use; without -p also as provider:model'
complete -c ask -n '__ask_in \'compact\'' -l base-url -x -d 'Base URL of the provider'
complete -c ask -n '__ask_in \'compact\'' -l key -x -d 'API key'
complete -c ask -n '__ask_in \'compact\'' -s o -l option -x -a '(__ask_parameter)' -d 'Model parameter, such as temperature=0.2'
complete -c ask -n '__ask_in \'compact\'' -l json -d 'Print one JSON object at the end'
complete -c ask -n '__ask_in \'compact\'' -l no-stream -d 'Do not print the answer while it arrives'
complete -c ask -n '__ask_in \'compact\'' -l plain -d 'No color, layout or animation'
complete -c ask -n '__ask_in \'compact\'' -s q -l quiet -d 'Print only errors, and commands and writes that fail, to stderr'
complete -c ask -n '__ask_in \'compact\'' -s v -l verbose -d 'Show tool results, reasoning and token usage'
complete -c ask -n '__ask_in \'compact\'' -l timeout -x -d 'Stop if no text arrives for this many seconds (300; 900 for xai)'
complete -c ask -n '__ask_in \'compact\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'compact\'' -f -k -a '(__ask_conversation)'
complete -c ask -n '__ask_in \'compare\'' -s p -l provider -x -a '(__ask_provider)' -d 'Provider to use (see ask providers)'
complete -c ask -n '__ask_in \'compare\'' -s s -l system -x -a '(__ask_system)' -d 'Extra system prompt; @file reads a file'
complete -c ask -n '__ask_in \'compare\'' -s f -l file -r -F -a '(__ask_attachment)' -d 'Attach a file, folder, image, PDF or URL'
complete -c ask -n '__ask_in \'compare\'' -l effort -x -a 'none minimal low medium high xhigh max' -d 'Reasoning effort, such as none, low or high'
complete -c ask -n '__ask_in \'compare\'' -s o -l option -x -a '(__ask_parameter)' -d 'Model parameter, such as temperature=0.2'
complete -c ask -n '__ask_in \'compare\'' -s T -l server-tool -x -a 'web_search web_fetch code_execution tool_search x_search' -d 'Offer the provider\'s own tool, such as web_search'
complete -c ask -n '__ask_in \'compare\'' -l plain -d 'No color, layout or animation'
complete -c ask -n '__ask_in \'compare\'' -s q -l quiet -d 'Print only errors, and commands and writes that fail, to stderr'
complete -c ask -n '__ask_in \'compare\'' -l record -r -F -d 'Append requests and answers to this file, for ASK_REPLAY'
complete -c ask -n '__ask_in \'compare\'' -l no-stdin -d 'Do not read stdin'
complete -c ask -n '__ask_in \'compare\'' -l timeout -x -d 'Stop if no text arrives for this many seconds (300; 900 for xai)'
complete -c ask -n '__ask_in \'compare\'' -s m -l model -x -a '(__ask_model)' -d 'Models to ask'
complete -c ask -n '__ask_in \'compare\'' -l race -d 'Print the first complete answer; cancel the others'
complete -c ask -n '__ask_in \'compare\'' -l judge -x -a '(__ask_model)' -d 'Have this model pick and explain the best answer'
complete -c ask -n '__ask_in \'compare\'' -l combine -x -a '(__ask_model)' -d 'Have this model combine the answers into one'
complete -c ask -n '__ask_in \'compare\'' -l json -d 'Print one JSON object at the end, as in a pipe'
complete -c ask -n '__ask_in \'compare\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'compare\'' -f
complete -c ask -n '__ask_first \'config\'' -f -a list -d 'List all settings, their values, and where they are set'
complete -c ask -n '__ask_first \'config\'' -f -a get -d 'Print the value of a setting'
complete -c ask -n '__ask_first \'config\'' -f -a set -d 'Change a setting in config.toml'
complete -c ask -n '__ask_first \'config\'' -f -a unset -d 'Remove a setting from config.toml'
complete -c ask -n '__ask_first \'config\'' -f -a path -d 'Print the path of config.toml'
complete -c ask -n '__ask_first \'config\'' -f -a edit -d 'Edit config.toml in your editor'
complete -c ask -n '__ask_in \'config\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'config\'' -f
complete -c ask -n '__ask_in \'config list\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'config list\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'config list\'' -f
complete -c ask -n '__ask_in \'config get\'' -l json -d 'Print the value as JSON'
complete -c ask -n '__ask_in \'config get\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'config get\'' -f -a '(__ask_key)'
complete -c ask -n '__ask_in \'config set\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'config set\'' -f -a '(__ask_setting)'
complete -c ask -n '__ask_in \'config unset\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'config unset\'' -f -a '(__ask_key)'
complete -c ask -n '__ask_in \'config path\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'config path\'' -f
complete -c ask -n '__ask_in \'config edit\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'config edit\'' -f
complete -c ask -n '__ask_first \'context\'' -f -a list -d 'List the projects that you were asked about'
complete -c ask -n '__ask_first \'context\'' -f -a trust -d 'Trust a project with its current instructions'
complete -c ask -n '__ask_first \'context\'' -f -a forget -d 'Forget a project, so that ask asks again'
complete -c ask -n '__ask_in \'context\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'context\'' -f
complete -c ask -n '__ask_in \'context list\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'context list\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'context list\'' -f
complete -c ask -n '__ask_in \'context trust\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'context trust\'' -f -a '(__fish_complete_directories)'
complete -c ask -n '__ask_in \'context forget\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'context forget\'' -f -a '(__fish_complete_directories)'
complete -c ask -n '__ask_in \'doctor\'' -l offline -d 'Do not contact the providers'
complete -c ask -n '__ask_in \'doctor\'' -s v -l verbose -d 'Also show the versions of packages'
complete -c ask -n '__ask_in \'doctor\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'doctor\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'doctor\'' -f
complete -c ask -n '__ask_in \'events\'' -l schema -d 'Print the JSON Schema of the lines'
complete -c ask -n '__ask_in \'events\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'events\'' -f
complete -c ask -n '__ask_in \'help\'' -l all -d 'Also show what is rarely needed'
complete -c ask -n '__ask_in \'help\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'help\'' -f -a 'acp chat compact compare config context doctor events help history hooks import init keys login logout map mcp models providers safe skills templates tools undo version'
complete -c ask -n '__ask_first \'history\'' -f -a list -d 'List conversations, newest first'
complete -c ask -n '__ask_first \'history\'' -f -a show -d 'Show a conversation'
complete -c ask -n '__ask_first \'history\'' -f -a search -d 'Search all conversations'
complete -c ask -n '__ask_first \'history\'' -f -a export -d 'Export conversations as Markdown, JSON or HTML'
complete -c ask -n '__ask_first \'history\'' -f -a import -d 'Import conversations from a JSON file'
complete -c ask -n '__ask_first \'history\'' -f -a delete -d 'Delete conversations'
complete -c ask -n '__ask_first \'history\'' -f -a stats -d 'Show runs, tokens and cost by day, model and tool'
complete -c ask -n '__ask_in \'history\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'history\'' -f
complete -c ask -n '__ask_in \'history list\'' -s n -l limit -x -d 'List the newest N; 0 lists all'
complete -c ask -n '__ask_in \'history list\'' -l here -d 'List only conversations from this folder'
complete -c ask -n '__ask_in \'history list\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'history list\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'history list\'' -f
complete -c ask -n '__ask_in \'history show\'' -s n -l last -x -d 'Show the last N runs'
complete -c ask -n '__ask_in \'history show\'' -l tools -d 'Show full tool arguments and results'
complete -c ask -n '__ask_in \'history show\'' -l json -d 'Print the conversation as JSON, in the export format'
complete -c ask -n '__ask_in \'history show\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'history show\'' -f -k -a '(__ask_conversation)'
complete -c ask -n '__ask_in \'history search\'' -s n -l limit -x -d 'Show the newest N; 0 shows all'
complete -c ask -n '__ask_in \'history search\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'history search\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'history search\'' -f
complete -c ask -n '__ask_in \'history export\'' -l all -d 'Export all conversations, oldest first'
complete -c ask -n '__ask_in \'history export\'' -l format -x -a 'md json html' -d 'Output format (default: by the file name, or md)'
complete -c ask -n '__ask_in \'history export\'' -l json -d 'Same as --format json'
complete -c ask -n '__ask_in \'history export\'' -s o -l output -r -F -d 'Write to this file, replacing it'
complete -c ask -n '__ask_in \'history export\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'history export\'' -f -k -a '(__ask_conversation)'
complete -c ask -n '__ask_in \'history import\'' -l as-new -d 'Import a conversation under a new id if its id is taken'
complete -c ask -n '__ask_in \'history import\'' -l json -d 'Print a JSON array of results'
complete -c ask -n '__ask_in \'history import\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_in \'history delete\'' -l older-than -x -d 'Delete conversations unused for this long: 12h, 30d, 6mo, 1y'
complete -c ask -n '__ask_in \'history delete\'' -s y -l yes -d 'Do not ask for confirmation'
complete -c ask -n '__ask_in \'history delete\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'history delete\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'history delete\'' -f -k -a '(__ask_conversation)'
complete -c ask -n '__ask_in \'history stats\'' -l days -x -d 'Include the last N days (30)'
complete -c ask -n '__ask_in \'history stats\'' -l json -d 'Print one JSON object'
complete -c ask -n '__ask_in \'history stats\'' -l html -r -F -d 'Write an HTML report to FILE, replacing it; - for stdout'
complete -c ask -n '__ask_in \'history stats\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'history stats\'' -f
complete -c ask -n '__ask_first \'hooks\'' -f -a list -d 'List the hooks of config.toml'
complete -c ask -n '__ask_first \'hooks\'' -f -a test -d 'Run the hooks for an event, and print what they decide'
complete -c ask -n '__ask_in \'hooks\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'hooks\'' -f
complete -c ask -n '__ask_in \'hooks list\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'hooks list\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'hooks list\'' -f
complete -c ask -n '__ask_in \'hooks test\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'hooks test\'' -f -a 'run_start before_tool after_tool run_end notification'
complete -c ask -n '__ask_in \'import\'' -l keys -l no-keys -d 'Import API keys, or not, without asking'
complete -c ask -n '__ask_in \'import\'' -l json -d 'Print one JSON object'
complete -c ask -n '__ask_in \'import\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'import\'' -f -a 'llm aichat'
complete -c ask -n '__ask_in \'init\'' -l key -x -d 'Key that turns words into a command (alt-a), or none'
complete -c ask -n '__ask_in \'init\'' -l explain-key -x -d 'Key that explains a failure (alt-e), or none'
complete -c ask -n '__ask_in \'init\'' -l install -d 'Install completions where the shell finds them'
complete -c ask -n '__ask_in \'init\'' -l uninstall -d 'Remove installed completions'
complete -c ask -n '__ask_in \'init\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'init\'' -f -a 'bash zsh fish'
complete -c ask -n '__ask_first \'keys\'' -f -a set -d 'Save the key of PROVIDER, typed without echo or read from standard input'
complete -c ask -n '__ask_first \'keys\'' -f -a list -d 'List the providers that have a key, and where it is set'
complete -c ask -n '__ask_first \'keys\'' -f -a remove -d 'Remove the saved key of PROVIDER'
complete -c ask -n '__ask_in \'keys\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'keys\'' -f
complete -c ask -n '__ask_in \'keys set\'' -l keyring -d 'Save it in the system keyring instead of a file'
complete -c ask -n '__ask_in \'keys set\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'keys set\'' -f -a '(__ask_provider)'
complete -c ask -n '__ask_in \'keys list\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'keys list\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'keys list\'' -f
complete -c ask -n '__ask_in \'keys remove\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'keys remove\'' -f -a '(__ask_provider)'
complete -c ask -n '__ask_in \'login\'' -l account -x -d 'Sign in to this account, which may be new'
complete -c ask -n '__ask_in \'login\'' -l use -x -d 'Use this account, without signing in again'
complete -c ask -n '__ask_in \'login\'' -l keyring -d 'Save the tokens in the system keyring instead of a file'
complete -c ask -n '__ask_in \'login\'' -l no-browser -d 'Print the URL, and ask for the one it redirects to'
complete -c ask -n '__ask_in \'login\'' -l port -x -d 'Port of this machine for the redirect'
complete -c ask -n '__ask_in \'login\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'login\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'login\'' -f -a 'chatgpt'
complete -c ask -n '__ask_in \'logout\'' -l account -x -d 'Sign out of this account, not the current one'
complete -c ask -n '__ask_in \'logout\'' -l all -d 'Sign out of all accounts'
complete -c ask -n '__ask_in \'logout\'' -l forget -d 'Also forget the account, so that the next sign-in registers it anew'
complete -c ask -n '__ask_in \'logout\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'logout\'' -f -a 'chatgpt'
complete -c ask -n '__ask_in \'map\'' -s p -l provider -x -a '(__ask_provider)' -d 'Provider to use (see ask providers)'
complete -c ask -n '__ask_in \'map\'' -l key -x -d 'API key'
complete -c ask -n '__ask_in \'map\'' -s s -l system -x -a '(__ask_system)' -d 'Extra system prompt; @file reads a file'
complete -c ask -n '__ask_in \'map\'' -l effort -x -a 'none minimal low medium high xhigh max' -d 'Reasoning effort, such as none, low or high'
complete -c ask -n '__ask_in \'map\'' -s o -l option -x -a '(__ask_parameter)' -d 'Model parameter, such as temperature=0.2'
complete -c ask -n '__ask_in \'map\'' -l var -x -d 'With -t: value for a {{placeholder}}'
complete -c ask -n '__ask_in \'map\'' -s T -l server-tool -x -a 'web_search web_fetch code_execution tool_search x_search' -d 'Offer the provider\'s own tool, such as web_search'
complete -c ask -n '__ask_in \'map\'' -l max-cost-per-day -x -d 'Stop once all runs of a day have cost this many US dollars'
complete -c ask -n '__ask_in \'map\'' -l decide -d 'Choose the values of --schema, with their probabilities'
complete -c ask -n '__ask_in \'map\'' -l plain -d 'No color, layout or animation'
complete -c ask -n '__ask_in \'map\'' -s q -l quiet -d 'Print only errors, and commands and writes that fail, to stderr'
complete -c ask -n '__ask_in \'map\'' -l record -r -F -d 'Append requests and answers to this file, for ASK_REPLAY'
complete -c ask -n '__ask_in \'map\'' -s O -l output -r -F -d 'Write a file or sqlite:FILE?table=T instead of JSONL to stdout'
complete -c ask -n '__ask_in \'map\'' -s m -l model -x -a '(__ask_model)' -d 'Models to ask'
complete -c ask -n '__ask_in \'map\'' -l base-url -x -d 'Base URL of the provider; repeat to share the rows among several'
complete -c ask -n '__ask_in \'map\'' -s f -l file -r -F -a '(__ask_attachment)' -d 'Attach a file to each row, such as {{path}}'
complete -c ask -n '__ask_in \'map\'' -s t -l template -x -a '(__ask_prompt)' -d 'Use this template as the prompt; all arguments are inputs'
complete -c ask -n '__ask_in \'map\'' -l schema -r -F -d 'Answer with JSON matching a schema; one column per field'
complete -c ask -n '__ask_in \'map\'' -l input-format -x -a 'jsonl json csv tsv lines nul files parquet arrow xlsx sqlite' -d 'Format of the input (default: by file name)'
complete -c ask -n '__ask_in \'map\'' -l delimiter -x -d 'Character between the columns of CSV: \';\' or tab'
complete -c ask -n '__ask_in \'map\'' -l encoding -x -a 'utf-8 utf-16 cp1252 cp1250 cp1251 cp932 gb18030' -d 'Encoding of the input, such as cp1252'
complete -c ask -n '__ask_in \'map\'' -s 0 -l null -d 'Rows of text are separated by NUL, not newlines'
complete -c ask -n '__ask_in \'map\'' -l sheet -x -d 'Read this sheet of an Excel workbook (default: the first)'
complete -c ask -n '__ask_in \'map\'' -l files -d 'Treat each INPUT file as one row, even a table'
complete -c ask -n '__ask_in \'map\'' -s j -l jobs -x -d 'Send N requests at a time (auto: adapt to the service)'
complete -c ask -n '__ask_in \'map\'' -l rpm -x -d 'Send at most N requests a minute'
complete -c ask -n '__ask_in \'map\'' -l tpm -x -d 'Use at most N tokens a minute'
complete -c ask -n '__ask_in \'map\'' -l csv-safe -d 'Write cells such as =1+1 to CSV and TSV as text, not as formulas'
complete -c ask -n '__ask_in \'map\'' -l columns -x -d 'Write these columns (a,b), or all, with latency and tries'
complete -c ask -n '__ask_in \'map\'' -l review -x -d 'With --decide: also write the rows with a probability below P to FILE'
complete -c ask -n '__ask_in \'map\'' -l report -r -F -d 'Write an HTML report on the rows, failures and answers to FILE'
complete -c ask -n '__ask_in \'map\'' -l score -x -d 'Compare answers with this column of labels (or FIELD=COLUMN)'
complete -c ask -n '__ask_in \'map\'' -l unordered -d 'Write rows as they finish, not in the order of the input'
complete -c ask -n '__ask_in \'map\'' -l limit -x -d 'Read only the first N rows'
complete -c ask -n '__ask_in \'map\'' -l sample -x -d 'Use a random but reproducible sample of N rows'
complete -c ask -n '__ask_in \'map\'' -l shard -x -a 'auto' -d 'Use every Nth row, from row I (auto: as Slurm or Kubernetes says)'
complete -c ask -n '__ask_in \'map\'' -l merge -r -F -d 'Join the outputs of all shards (the arguments) in a file'
complete -c ask -n '__ask_in \'map\'' -l dry-run -d 'Estimate rows, tokens and the price; send nothing'
complete -c ask -n '__ask_in \'map\'' -l no-dedupe -d 'Send rows with identical prompts one by one, not once'
complete -c ask -n '__ask_in \'map\'' -l retry-failed -d 'Send the failed rows of earlier runs again'
complete -c ask -n '__ask_in \'map\'' -l fresh -d 'Start over: forget earlier answers and replace the output file'
complete -c ask -n '__ask_in \'map\'' -l max-cost -x -d 'Stop once the job has cost this many US dollars'
complete -c ask -n '__ask_in \'map\'' -l max-failures -x -d 'Stop after N failed rows, or N%'
complete -c ask -n '__ask_in \'map\'' -l tools -d 'Let the model run tools, in a process for each row'
complete -c ask -n '__ask_in \'map\'' -l safe -d 'With --tools: confine each row to a working copy, without network'
complete -c ask -n '__ask_in \'map\'' -l context -d 'With --tools: send the project\'s AGENTS.md and skills to each row'
complete -c ask -n '__ask_in \'map\'' -l safe-files -d 'With --tools: like --safe, but without a sandbox or commands'
complete -c ask -n '__ask_in \'map\'' -l workdir-template -x -a '(__fish_complete_directories)' -d 'With --tools: run each row in a copy of this folder'
complete -c ask -n '__ask_in \'map\'' -l max-rounds -x -d 'With --tools: allow N tool rounds (10)'
complete -c ask -n '__ask_in \'map\'' -l wait -x -d 'Wait this long if the service fails (30m; 0: stop)'
complete -c ask -n '__ask_in \'map\'' -l batch -d 'Use the provider\'s batch API: cheaper, answers within a day'
complete -c ask -n '__ask_in \'map\'' -l completion-window -x -a '2h 8h' -d 'Have OpenAI answer within 2h or 8h, at a discount'
complete -c ask -n '__ask_in \'map\'' -l detach -d 'With --batch: submit and exit; run again to collect the answers'
complete -c ask -n '__ask_in \'map\'' -l cancel -d 'With --batch: cancel the batch and keep its answers so far'
complete -c ask -n '__ask_in \'map\'' -l poll-interval -x -d 'With --batch: check every S seconds (2 to 60)'
complete -c ask -n '__ask_in \'map\'' -l engine -x -a 'dask' -d 'Run the rows on a Dask cluster'
complete -c ask -n '__ask_in \'map\'' -l timeout -x -d 'Give up on an answer after S seconds (300)'
complete -c ask -n '__ask_in \'map\'' -l no-save -d 'Delete the saved answers once the job is complete'
complete -c ask -n '__ask_in \'map\'' -l ledger -r -F -d 'Save the answers in this database, not in the data folder'
complete -c ask -n '__ask_in \'map\'' -l list -d 'List jobs'
complete -c ask -n '__ask_in \'map\'' -l json -d 'With --list, or --score of an output: print JSON'
complete -c ask -n '__ask_in \'map\'' -l forget -x -k -a '(__ask_job)' -d 'Delete a job and its answers; output files stay'
complete -c ask -n '__ask_in \'map\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_first \'mcp\'' -f -a list -d 'List the MCP servers, or the tools of one'
complete -c ask -n '__ask_first \'mcp\'' -f -a resources -d 'List the resources of MCP servers, for -f'
complete -c ask -n '__ask_first \'mcp\'' -f -a prompts -d 'List the prompts of MCP servers, for -t'
complete -c ask -n '__ask_first \'mcp\'' -f -a add -d 'Add an MCP server to config.toml'
complete -c ask -n '__ask_first \'mcp\'' -f -a remove -d 'Remove an MCP server from config.toml'
complete -c ask -n '__ask_first \'mcp\'' -f -a login -d 'Sign in to a remote MCP server in the browser'
complete -c ask -n '__ask_first \'mcp\'' -f -a logout -d 'Sign out of a remote MCP server'
complete -c ask -n '__ask_first \'mcp\'' -f -a test -d 'Start MCP servers and check that they work'
complete -c ask -n '__ask_first \'mcp\'' -f -a serve -d 'Be an MCP server that asks models'
complete -c ask -n '__ask_in \'mcp\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'mcp\'' -f
complete -c ask -n '__ask_in \'mcp list\'' -l tools -d 'Start all servers and list their tools'
complete -c ask -n '__ask_in \'mcp list\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'mcp list\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'mcp list\'' -f -a '(__ask_server)'
complete -c ask -n '__ask_in \'mcp resources\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'mcp resources\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'mcp resources\'' -f -a '(__ask_server)'
complete -c ask -n '__ask_in \'mcp prompts\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'mcp prompts\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'mcp prompts\'' -f -a '(__ask_server)'
complete -c ask -n '__ask_in \'mcp add\'' -l env -x -d 'Environment variable for the command'
complete -c ask -n '__ask_in \'mcp add\'' -l header -x -d 'HTTP header for the URL'
complete -c ask -n '__ask_in \'mcp add\'' -l oauth -x -d 'Setting for signing in, such as client_id'
complete -c ask -n '__ask_in \'mcp add\'' -l cwd -x -a '(__fish_complete_directories)' -d 'Working directory of the command'
complete -c ask -n '__ask_in \'mcp add\'' -l timeout -x -d 'Allow S seconds for starting (10)'
complete -c ask -n '__ask_in \'mcp add\'' -l only -x -d 'Offer only this tool; repeatable'
complete -c ask -n '__ask_in \'mcp add\'' -l sse -d 'Use the older SSE transport for the URL'
complete -c ask -n '__ask_in \'mcp add\'' -l from -r -F -d 'Import servers from another program\'s settings'
complete -c ask -n '__ask_in \'mcp add\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_in \'mcp remove\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'mcp remove\'' -f -a '(__ask_server)'
complete -c ask -n '__ask_in \'mcp login\'' -l no-browser -d 'Print the URL, and ask for the one it redirects to'
complete -c ask -n '__ask_in \'mcp login\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'mcp login\'' -f -a '(__ask_server)'
complete -c ask -n '__ask_in \'mcp logout\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'mcp logout\'' -f -a '(__ask_server)'
complete -c ask -n '__ask_in \'mcp test\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'mcp test\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'mcp test\'' -f -a '(__ask_server)'
complete -c ask -n '__ask_in \'mcp serve\'' -l tools -d 'Offer tools to the models that are asked'
complete -c ask -n '__ask_in \'mcp serve\'' -l history -d 'Let callers search the saved conversations'
complete -c ask -n '__ask_in \'mcp serve\'' -s p -l provider -x -a '(__ask_provider)' -d 'Provider to use (see ask providers)'
complete -c ask -n '__ask_in \'mcp serve\'' -s m -l model -x -a '(__ask_model)' -d 'Model to use; without -p also as provider:model'
complete -c ask -n '__ask_in \'mcp serve\'' -l no-save -d 'Do not save conversations and file backups'
complete -c ask -n '__ask_in \'mcp serve\'' -l max-rounds -x -d 'Maximum rounds of tool calls (10)'
complete -c ask -n '__ask_in \'mcp serve\'' -l max-cost -x -d 'Stop calling tools after this many US dollars'
complete -c ask -n '__ask_in \'mcp serve\'' -l confirm -d 'Ask before each tool call with side effects'
complete -c ask -n '__ask_in \'mcp serve\'' -l safe -d 'Confine tools to this folder, without network'
complete -c ask -n '__ask_in \'mcp serve\'' -l safe-files -d 'Like --safe, but without a sandbox or commands'
complete -c ask -n '__ask_in \'mcp serve\'' -l timeout -x -d 'Stop if no text arrives for this many seconds (300; 900 for xai)'
complete -c ask -n '__ask_in \'mcp serve\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'mcp serve\'' -f
complete -c ask -n '__ask_in \'models\'' -s p -l provider -x -a '(__ask_provider)' -d 'Provider whose models to list'
complete -c ask -n '__ask_in \'models\'' -l timeout -x -d 'Stop if nothing arrives for S seconds (30)'
complete -c ask -n '__ask_in \'models\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'models\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'models\'' -f
complete -c ask -n '__ask_in \'providers\'' -l all -d 'Include the services that have no key'
complete -c ask -n '__ask_in \'providers\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'providers\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'providers\'' -f
complete -c ask -n '__ask_in \'safe\'' -l files -d 'Check --safe-files instead'
complete -c ask -n '__ask_in \'safe\'' -l forget -r -F -d 'Forget what earlier runs hid or protected at PATH'
complete -c ask -n '__ask_in \'safe\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'safe\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'safe\'' -f
complete -c ask -n '__ask_first \'skills\'' -f -a list -d 'List the skills of this project, and your own'
complete -c ask -n '__ask_first \'skills\'' -f -a show -d 'Print a skill'
complete -c ask -n '__ask_first \'skills\'' -f -a add -d 'Install skills from a git repository, after showing their files'
complete -c ask -n '__ask_first \'skills\'' -f -a update -d 'Update installed skills, by default all, after showing what changes in their'
complete -c ask -n '__ask_first \'skills\'' -f -a remove -d 'Remove skills that ask skills add has installed'
complete -c ask -n '__ask_first \'skills\'' -f -a check -d 'Check skills against the specification'
complete -c ask -n '__ask_in \'skills\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'skills\'' -f
complete -c ask -n '__ask_in \'skills list\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'skills list\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'skills list\'' -f
complete -c ask -n '__ask_in \'skills show\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'skills show\'' -f -a '(__ask_skill)'
complete -c ask -n '__ask_in \'skills add\'' -l all -d 'Install all skills of the repository'
complete -c ask -n '__ask_in \'skills add\'' -l ref -x -d 'The branch, tag or commit to install from'
complete -c ask -n '__ask_in \'skills add\'' -s y -l yes -d 'Do not ask for confirmation'
complete -c ask -n '__ask_in \'skills add\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'skills add\'' -f -a '(__fish_complete_directories)'
complete -c ask -n '__ask_in \'skills update\'' -l force -d 'Also replace skills that you have changed'
complete -c ask -n '__ask_in \'skills update\'' -s y -l yes -d 'Do not ask for confirmation'
complete -c ask -n '__ask_in \'skills update\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'skills update\'' -f -a '(__ask_skill)'
complete -c ask -n '__ask_in \'skills remove\'' -s y -l yes -d 'Do not ask for confirmation'
complete -c ask -n '__ask_in \'skills remove\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'skills remove\'' -f -a '(__ask_skill)'
complete -c ask -n '__ask_in \'skills check\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'skills check\'' -f -a '(__fish_complete_directories)'
complete -c ask -n '__ask_first \'templates\'' -f -a list -d 'List the templates, yours and the built-in ones'
complete -c ask -n '__ask_first \'templates\'' -f -a show -d 'Print a template'
complete -c ask -n '__ask_first \'templates\'' -f -a new -d 'Create a template'
complete -c ask -n '__ask_first \'templates\'' -f -a delete -d 'Delete a template'
complete -c ask -n '__ask_first \'templates\'' -f -a edit -d 'Edit a template, or a copy of a built-in one'
complete -c ask -n '__ask_in \'templates\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'templates\'' -f
complete -c ask -n '__ask_in \'templates list\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'templates list\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'templates list\'' -f
complete -c ask -n '__ask_in \'templates show\'' -l json -d 'Print one JSON object'
complete -c ask -n '__ask_in \'templates show\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'templates show\'' -f -a '(__ask_template)'
complete -c ask -n '__ask_in \'templates new\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'templates new\'' -f
complete -c ask -n '__ask_in \'templates delete\'' -s y -l yes -d 'Do not ask for confirmation'
complete -c ask -n '__ask_in \'templates delete\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'templates delete\'' -f -a '(__ask_template)'
complete -c ask -n '__ask_in \'templates edit\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'templates edit\'' -f -a '(__ask_template)'
complete -c ask -n '__ask_first \'tools\'' -f -a list -d 'List the tools available to models'
complete -c ask -n '__ask_first \'tools\'' -f -a approvals -d 'List the remembered approvals'
complete -c ask -n '__ask_first \'tools\'' -f -a forget -d 'Forget remembered approvals, so that ask asks again'
complete -c ask -n '__ask_in \'tools\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'tools\'' -f
complete -c ask -n '__ask_in \'tools list\'' -l tool -r -F -d 'Also list this Python function'
complete -c ask -n '__ask_in \'tools list\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'tools list\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'tools list\'' -f
complete -c ask -n '__ask_in \'tools approvals\'' -l json -d 'Print a JSON array'
complete -c ask -n '__ask_in \'tools approvals\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'tools approvals\'' -f
complete -c ask -n '__ask_in \'tools forget\'' -l all -d 'Forget all approvals'
complete -c ask -n '__ask_in \'tools forget\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'tools forget\'' -f -a '(__ask_approval)'
complete -c ask -n '__ask_in \'undo\'' -l all -d 'Undo all runs of the conversation'
complete -c ask -n '__ask_in \'undo\'' -l redo -d 'Reverse the last undo'
complete -c ask -n '__ask_in \'undo\'' -s n -l dry-run -d 'Only show the diff'
complete -c ask -n '__ask_in \'undo\'' -l list -d 'Only list the files and what would happen to them'
complete -c ask -n '__ask_in \'undo\'' -l force -d 'Also restore files that have changed since'
complete -c ask -n '__ask_in \'undo\'' -s y -l yes -d 'Do not ask; without ID, undo only the last run'
complete -c ask -n '__ask_in \'undo\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'undo\'' -f -k -a '(__ask_conversation)'
complete -c ask -n '__ask_in \'version\'' -s h -l help -d 'Show this message and exit'
complete -c ask -n '__ask_words \'version\'' -f
# to here

complete -c ask -n '__ask_first \'\'' -f -a '(__ask_lines commands)'
complete -c ask -n '__ask_in_package' -f -a '(__ask_arguments)'

# What the line holds before the cursor: the command, as "history show", on the first line; whether options may
# still come on the second; how many words there are behind the command on the third.
function __ask_line
    set -l tokens (commandline -opc)
    set -e tokens[1]
    set -l command ''
    while set -q tokens[1]; and contains -- $tokens[1] (__ask_commands "$command")
        set command (string trim "$command $tokens[1]")
        set -e tokens[1]
    end
    if test -z "$command"; and set -q tokens[1]; and __ask_is_package $tokens[1]
        set command 'command of a package'
    end
    set -l valued (__ask_valued "$command")
    set -l options yes
    set -l words 0
    while set -q tokens[1]
        set -l token $tokens[1]
        set -e tokens[1]
        if test $options = yes; and string match -q -r '^-\S' -- $token
            if test "$token" = --
                set options no
            else if __ask_takes_next $token $valued; and set -q tokens[1]
                set -e tokens[1]
            end
        else
            set words (math $words + 1)
            if test -z "$command"; and test $words = 2
                set options no
            end
        end
    end
    printf '%s\n' "$command" $options $words
end

function __ask_is_package -a name  # whether a package has the command; asked once, since each condition needs it
    string match -q -r '^[a-z][a-z0-9_-]*$' -- $name
    or return 1
    if test "$name" != "$__ask_named"
        set -g __ask_named $name
        set -g __ask_packages (__ask_lines commands | string replace -r '\t.*' '')
    end
    contains -- $name $__ask_packages
end

function __ask_arguments  # what the command of a package takes
    set -l tokens (commandline -opc)
    set -l lines (__ask_lines arguments (commandline -ct) $tokens[2..-1])
    if set -q lines[2]
        set -l option (string match -r -- '^--[^=]*=' (commandline -ct))
        string replace -r -- '^' "$option" $lines[2..-1]
    else
        __fish_complete_path (commandline -ct)
    end
end

function __ask_takes_next -a token
    set -l valued $argv[2..-1]
    if string match -q -- '--*' $token
        contains -- $token $valued
        return
    end
    set -l letters (string split '' -- (string sub -s 2 -- $token))
    for place in (seq (count $letters))
        if contains -- -$letters[$place] $valued
            test $place = (count $letters)
            return
        end
    end
    return 1
end

function __ask_in -a command  # whether an option of the command may come
    set -l line (__ask_line)
    test "$line[1]" = "$command" -a "$line[2]" = yes
end

function __ask_in_package
    test (__ask_line)[1] = 'command of a package'
end

function __ask_words -a command  # whether a word of the command may come
    set -l line (__ask_line)
    test "$line[1]" = "$command"
end

function __ask_first -a command  # whether a part of the command may come
    set -l line (__ask_line)
    test "$line[1]" = "$command" -a "$line[3]" = 0
    and test -n "$command" -o (count (commandline -opc)) = 1
end

function __ask_lines
    command ask --complete $argv </dev/null 2>/dev/null
end

function __ask_provider
    __ask_lines providers
end

function __ask_model
    __ask_models models
end

function __ask_fallback
    __ask_models fallbacks
end

function __ask_models --argument-names kind
    set -l provider
    set -l tokens (commandline -opc)
    for place in (seq (count $tokens))
        if string match -q -r -- '^(-[a-zA-Z]*p|--provider)$' $tokens[$place]
            set provider $tokens[(math $place + 1)]
        else if string match -q -- '--provider=*' $tokens[$place]
            set provider (string replace -- --provider= '' $tokens[$place])
        end
    end
    __ask_lines $kind (string replace -r -- '^--(model|fallback)=|^-m' '' (commandline -ct)) $provider
end

function __ask_conversation
    __ask_lines conversations
end

function __ask_job
    __ask_lines jobs
end

function __ask_approval
    __ask_lines approvals
end

function __ask_server
    __ask_lines servers
end

function __ask_skill
    __ask_lines skills
end

function __ask_template
    __ask_lines templates
end

function __ask_prompt
    __ask_lines prompts (string replace -r -- '^--template=|^-t' '' (commandline -ct))
end

function __ask_attachment
    set -l word (string replace -r -- '^--file=|^-f' '' (commandline -ct))
    if string match -q -- 'mcp:*' $word; or not string match -q -- '*/*' $word
        __ask_lines resources $word
    end
end

function __ask_system
    set -l start (string match -r -- '@(.*)$' (commandline -ct))
    and string replace -r '^' @ -- (__fish_complete_path $start[2])
end

function __ask_key
    test (__ask_line)[3] = 0
    and printf '%s\n' $__ask_keys
end

function __ask_setting
    if test (__ask_line)[3] = 0
        __ask_key
        return
    end
    set -l values (__ask_lines values (commandline -ct) (commandline -opc)[-1])
    if set -q values[1]
        printf '%s\n' $values
    else
        __fish_complete_path (commandline -ct)
    end
end

function __ask_tool
    __fish_append , $__ask_tools
end

function __ask_parameter
    printf '%s=\n' $__ask_parameters
    string match -q '*reasoning_effort=*' -- (commandline -ct)
    and printf 'reasoning_effort=%s\n' $__ask_efforts
end
