# ask: completions for bash 4.4 or later
# shellcheck shell=bash

# make generated writes from here
_ask_about() {  # COMMAND: what it takes
    case $1 in
        '')
            commands='acp chat compact compare config context doctor events help history hooks import init keys login logout map mcp models providers safe skills templates tools undo version'
            options='-p --provider -m --model --fallback --base-url --key -s --system -f --file --effort -o --option -t --template --var -c --continue --resume --unanswered --no-save --no-tools --disable-tool --context --no-context --tool -T --server-tool --max-rounds --max-cost --max-cost-per-day --command-timeout --max-command-timeout --confirm -y --yes --safe --safe-files --allow-dir --allow-git --allow-host --allow-command-host --allow-tool --cmd --code -x --extract --schema --decide --json --events --input-events --no-stream --plain -q --quiet -v --verbose -u --usage --color -C --cd --record --no-stdin --timeout -V --version -h --help'
            values='-p=provider --provider=provider -m=model --model=model --fallback=fallback --base-url=nothing --key=nothing -s=system --system=system -f=attachment --file=attachment --effort=choice:none,minimal,low,medium,high,xhigh,max -o=parameter --option=parameter -t=prompt --template=prompt --var=nothing --resume=conversation --disable-tool=tool --tool=file -T=choice:web_search,web_fetch,code_execution,tool_search,x_search --server-tool=choice:web_search,web_fetch,code_execution,tool_search,x_search --max-rounds=nothing --max-cost=nothing --max-cost-per-day=nothing --command-timeout=nothing --max-command-timeout=nothing --allow-dir=directory --allow-host=nothing --allow-command-host=nothing --allow-tool=tool --schema=file --color=choice:auto,always,never -C=directory --cd=directory --record=file --timeout=nothing'
            rest='file' ;;
        acp)
            commands=''
            options='-p --provider -m --model -T --server-tool --max-rounds --max-cost --safe --safe-files --allow-dir --timeout -h --help'
            values='-p=provider --provider=provider -m=model --model=model -T=choice:web_search,web_fetch,code_execution,tool_search,x_search --server-tool=choice:web_search,web_fetch,code_execution,tool_search,x_search --max-rounds=nothing --max-cost=nothing --allow-dir=directory --timeout=nothing'
            rest='nothing' ;;
        chat)
            commands=''
            options='-p --provider -m --model --fallback --base-url --key -s --system -f --file --effort -o --option -t --template --var -c --continue --resume --unanswered --no-save --no-tools --disable-tool --context --no-context --tool -T --server-tool --max-rounds --max-cost --max-cost-per-day --command-timeout --max-command-timeout --confirm -y --yes --safe --safe-files --allow-dir --allow-git --allow-host --allow-command-host --allow-tool --json --events --no-stream --plain -q --quiet -v --verbose -u --usage --color -C --cd --record --timeout -h --help'
            values='-p=provider --provider=provider -m=model --model=model --fallback=fallback --base-url=nothing --key=nothing -s=system --system=system -f=attachment --file=attachment --effort=choice:none,minimal,low,medium,high,xhigh,max -o=parameter --option=parameter -t=prompt --template=prompt --var=nothing --resume=conversation --disable-tool=tool --tool=file -T=choice:web_search,web_fetch,code_execution,tool_search,x_search --server-tool=choice:web_search,web_fetch,code_execution,tool_search,x_search --max-rounds=nothing --max-cost=nothing --max-cost-per-day=nothing --command-timeout=nothing --max-command-timeout=nothing --allow-dir=directory --allow-host=nothing --allow-command-host=nothing --allow-tool=tool --color=choice:auto,always,never -C=directory --cd=directory --record=file --timeout=nothing'
            rest='nothing' ;;
        compact)
            commands=''
            options='-p --provider -m --model --base-url --key -o --option --json --no-stream --plain -q --quiet -v --verbose --timeout -h --help'
            values='-p=provider --provider=provider -m=model --model=model --base-url=nothing --key=nothing -o=parameter --option=parameter --timeout=nothing'
            rest='conversation' ;;
        compare)
            commands=''
            options='-p --provider -s --system -f --file --effort -o --option -T --server-tool --plain -q --quiet --record --no-stdin --timeout -m --model --race --judge --combine --json -h --help'
            values='-p=provider --provider=provider -s=system --system=system -f=attachment --file=attachment --effort=choice:none,minimal,low,medium,high,xhigh,max -o=parameter --option=parameter -T=choice:web_search,web_fetch,code_execution,tool_search,x_search --server-tool=choice:web_search,web_fetch,code_execution,tool_search,x_search --record=file --timeout=nothing -m=model --model=model --judge=model --combine=model'
            rest='nothing' ;;
        config)
            commands='list get set unset path edit'
            options='-h --help'
            values=''
            rest='nothing' ;;
        'config list')
            commands=''
            options='--json -h --help'
            values=''
            rest='nothing' ;;
        'config get')
            commands=''
            options='--json -h --help'
            values=''
            rest='key' ;;
        'config set')
            commands=''
            options='-h --help'
            values=''
            rest='setting' ;;
        'config unset')
            commands=''
            options='-h --help'
            values=''
            rest='key' ;;
        'config path')
            commands=''
            options='-h --help'
            values=''
            rest='nothing' ;;
        'config edit')
            commands=''
            options='-h --help'
            values=''
            rest='nothing' ;;
        context)
            commands='list trust forget'
            options='-h --help'
            values=''
            rest='nothing' ;;
        'context list')
            commands=''
            options='--json -h --help'
            values=''
            rest='nothing' ;;
        'context trust')
            commands=''
            options='-h --help'
            values=''
            rest='directory' ;;
        'context forget')
            commands=''
            options='-h --help'
            values=''
            rest='directory' ;;
        doctor)
            commands=''
            options='--offline -v --verbose --json -h --help'
            values=''
            rest='nothing' ;;
        events)
            commands=''
            options='--schema -h --help'
            values=''
            rest='nothing' ;;
        help)
            commands=''
            options='--all -h --help'
            values=''
            rest='choice:acp,chat,compact,compare,config,context,doctor,events,help,history,hooks,import,init,keys,login,logout,map,mcp,models,providers,safe,skills,templates,tools,undo,version' ;;
        history)
            commands='list show search export import delete stats'
            options='-h --help'
            values=''
            rest='nothing' ;;
        'history list')
            commands=''
            options='-n --limit --here --json -h --help'
            values='-n=nothing --limit=nothing'
            rest='nothing' ;;
        'history show')
            commands=''
            options='-n --last --tools --json -h --help'
            values='-n=nothing --last=nothing'
            rest='conversation' ;;
        'history search')
            commands=''
            options='-n --limit --json -h --help'
            values='-n=nothing --limit=nothing'
            rest='nothing' ;;
        'history export')
            commands=''
            options='--all --format --json -o --output -h --help'
            values='--format=choice:md,json,html -o=file --output=file'
            rest='conversation' ;;
        'history import')
            commands=''
            options='--as-new --json -h --help'
            values=''
            rest='file' ;;
        'history delete')
            commands=''
            options='--older-than -y --yes --json -h --help'
            values=--older-than=nothing
            rest='conversation' ;;
        'history stats')
            commands=''
            options='--days --json --html -h --help'
            values='--days=nothing --html=file'
            rest='nothing' ;;
        hooks)
            commands='list test'
            options='-h --help'
            values=''
            rest='nothing' ;;
        'hooks list')
            commands=''
            options='--json -h --help'
            values=''
            rest='nothing' ;;
        'hooks test')
            commands=''
            options='-h --help'
            values=''
            rest='choice:run_start,before_tool,after_tool,run_end,notification' ;;
        import)
            commands=''
            options='--keys --no-keys --json -h --help'
            values=''
            rest='choice:llm,aichat' ;;
        init)
            commands=''
            options='--key --explain-key --install --uninstall -h --help'
            values='--key=nothing --explain-key=nothing'
            rest='choice:bash,zsh,fish' ;;
        keys)
            commands='set list remove'
            options='-h --help'
            values=''
            rest='nothing' ;;
        'keys set')
            commands=''
            options='--keyring -h --help'
            values=''
            rest='provider' ;;
        'keys list')
            commands=''
            options='--json -h --help'
            values=''
            rest='nothing' ;;
        'keys remove')
            commands=''
            options='-h --help'
            values=''
            rest='provider' ;;
        login)
            commands=''
            options='--account --use --keyring --no-browser --port --json -h --help'
            values='--account=nothing --use=nothing --port=nothing'
            rest='choice:chatgpt' ;;
        logout)
            commands=''
            options='--account --all --forget -h --help'
            values=--account=nothing
            rest='choice:chatgpt' ;;
        map)
            commands=''
            options='-p --provider --key -s --system --effort -o --option --var -T --server-tool --max-cost-per-day --decide --plain -q --quiet --record -O --output -m --model --base-url -f --file -t --template --schema --input-format --delimiter --encoding -0 --null --sheet --files -j --jobs --rpm --tpm --csv-safe --columns --review --report --score --unordered --limit --sample --shard --merge --dry-run --no-dedupe --retry-failed --fresh --max-cost --max-failures --tools --safe --context --safe-files --workdir-template --max-rounds --wait --batch --completion-window --detach --cancel --poll-interval --engine --timeout --no-save --ledger --list --json --forget -h --help'
            values='-p=provider --provider=provider --key=nothing -s=system --system=system --effort=choice:none,minimal,low,medium,high,xhigh,max -o=parameter --option=parameter --var=nothing -T=choice:web_search,web_fetch,code_execution,tool_search,x_search --server-tool=choice:web_search,web_fetch,code_execution,tool_search,x_search --max-cost-per-day=nothing --record=file -O=file --output=file -m=model --model=model --base-url=nothing -f=attachment --file=attachment -t=prompt --template=prompt --schema=file --input-format=choice:jsonl,json,csv,tsv,lines,nul,files,parquet,arrow,xlsx,sqlite --delimiter=nothing --encoding=choice:utf-8,utf-16,cp1252,cp1250,cp1251,cp932,gb18030 --sheet=nothing -j=nothing --jobs=nothing --rpm=nothing --tpm=nothing --columns=nothing --review=nothing --report=file --score=nothing --limit=nothing --sample=nothing --shard=choice:auto --merge=file --max-cost=nothing --max-failures=nothing --workdir-template=directory --max-rounds=nothing --wait=nothing --completion-window=choice:2h,8h --poll-interval=nothing --engine=choice:dask --timeout=nothing --ledger=file --forget=job'
            rest='file' ;;
        mcp)
            commands='list resources prompts add remove login logout test serve'
            options='-h --help'
            values=''
            rest='nothing' ;;
        'mcp list')
            commands=''
            options='--tools --json -h --help'
            values=''
            rest='server' ;;
        'mcp resources')
            commands=''
            options='--json -h --help'
            values=''
            rest='server' ;;
        'mcp prompts')
            commands=''
            options='--json -h --help'
            values=''
            rest='server' ;;
        'mcp add')
            commands=''
            options='--env --header --oauth --cwd --timeout --only --sse --from -h --help'
            values='--env=nothing --header=nothing --oauth=nothing --cwd=directory --timeout=nothing --only=nothing --from=file'
            rest='file' ;;
        'mcp remove')
            commands=''
            options='-h --help'
            values=''
            rest='server' ;;
        'mcp login')
            commands=''
            options='--no-browser -h --help'
            values=''
            rest='server' ;;
        'mcp logout')
            commands=''
            options='-h --help'
            values=''
            rest='server' ;;
        'mcp test')
            commands=''
            options='--json -h --help'
            values=''
            rest='server' ;;
        'mcp serve')
            commands=''
            options='--tools --history -p --provider -m --model --no-save --max-rounds --max-cost --confirm --safe --safe-files --timeout -h --help'
            values='-p=provider --provider=provider -m=model --model=model --max-rounds=nothing --max-cost=nothing --timeout=nothing'
            rest='nothing' ;;
        models)
            commands=''
            options='-p --provider --timeout --json -h --help'
            values='-p=provider --provider=provider --timeout=nothing'
            rest='nothing' ;;
        providers)
            commands=''
            options='--all --json -h --help'
            values=''
            rest='nothing' ;;
        safe)
            commands=''
            options='--files --forget --json -h --help'
            values=--forget=file
            rest='nothing' ;;
        skills)
            commands='list show add update remove check'
            options='-h --help'
            values=''
            rest='nothing' ;;
        'skills list')
            commands=''
            options='--json -h --help'
            values=''
            rest='nothing' ;;
        'skills show')
            commands=''
            options='-h --help'
            values=''
            rest='skill' ;;
        'skills add')
            commands=''
            options='--all --ref -y --yes -h --help'
            values=--ref=nothing
            rest='directory' ;;
        'skills update')
            commands=''
            options='--force -y --yes -h --help'
            values=''
            rest='skill' ;;
        'skills remove')
            commands=''
            options='-y --yes -h --help'
            values=''
            rest='skill' ;;
        'skills check')
            commands=''
            options='-h --help'
            values=''
            rest='directory' ;;
        templates)
            commands='list show new delete edit'
            options='-h --help'
            values=''
            rest='nothing' ;;
        'templates list')
            commands=''
            options='--json -h --help'
            values=''
            rest='nothing' ;;
        'templates show')
            commands=''
            options='--json -h --help'
            values=''
            rest='template' ;;
        'templates new')
            commands=''
            options='-h --help'
            values=''
            rest='nothing' ;;
        'templates delete')
            commands=''
            options='-y --yes -h --help'
            values=''
            rest='template' ;;
        'templates edit')
            commands=''
            options='-h --help'
            values=''
            rest='template' ;;
        tools)
            commands='list approvals forget'
            options='-h --help'
            values=''
            rest='nothing' ;;
        'tools list')
            commands=''
            options='--tool --json -h --help'
            values=--tool=file
            rest='nothing' ;;
        'tools approvals')
            commands=''
            options='--json -h --help'
            values=''
            rest='nothing' ;;
        'tools forget')
            commands=''
            options='--all -h --help'
            values=''
            rest='approval' ;;
        undo)
            commands=''
            options='--all --redo -n --dry-run --list --force -y --yes -h --help'
            values=''
            rest='conversation' ;;
        version)
            commands=''
            options='-h --help'
            values=''
            rest='nothing' ;;
    esac
}
_ask_tools='read_file write_file edit_file list_dir bash fetch_url search_web'
_ask_keys='provider model fallback system max_rounds max_cost max_cost_per_day timeout stream stdin_limit footer context_limit notifications server_tools tools.enabled tools.disabled tools.piped tools.command_timeout tools.max_command_timeout tools.confirm tools.allow tools.deny history.enabled search.engine mcp.files safe.enabled safe.level safe.allow_dirs safe.allow_git safe.allow_hosts safe.allow_command_hosts safe.allow_tools safe.environment context.files skills.folders media_dir attachments.keep_location traces trace_content network.tries network.backoff'
_ask_parameters='frequency_penalty max_tokens presence_penalty reasoning_effort seed stop temperature top_k top_p'
_ask_efforts='none minimal low medium high xhigh max'
# to here

_ask() {
    local IFS=$' \t\n'  # the user's may be another, as after IFS=$'\n'
    local command='' commands='' options='' values='' rest='' kind='' kept='' current='' provider='' question=''
    local -a words=()
    _ask_read_line
    local word=$current
    _ask_read_words
    COMPREPLY=()
    if [[ -z $command && ${#words[@]} -gt 2 ]] && _ask_offer_arguments "$word"; then
        [[ ${#COMPREPLY[@]} == 0 ]] || compopt +o default
        return 0
    fi
    case $kind in
        commands) _ask_offer "$commands" ;;
        options) _ask_offer "$options" ;;
        choice:*) kind=${kind#choice:} && _ask_offer "${kind//,/ }" ;;
        provider) _ask_offer_lines providers ;;
        model) _ask_offer_lines models "$current" "$provider" ;;
        fallback) _ask_offer_lines fallbacks "$current" "$provider" ;;
        template) _ask_offer_lines templates ;;
        prompt) _ask_offer_lines prompts "$current" ;;
        attachment)
            [[ $current == mcp:* ]] || ! compgen -f -- "$current" >/dev/null || return 0
            _ask_offer_lines resources "$current" ;;
        server | skill) _ask_offer_lines "${kind}s" ;;
        conversation | job | approval) _ask_offer_titled "${kind}s" ;;
        key) _ask_offer "$_ask_keys" ;;
        setting) _ask_offer_setting || return 0 ;;
        parameter) _ask_offer_parameters ;;
        tool) _ask_offer_tools ;;
        directory) mapfile -t COMPREPLY < <(compgen -d -- "$current") && compopt -o filenames ;;
        system) [[ $current != @* ]] || _ask_offer_marked_files ;;
        file) return 0 ;;  # complete's `default` does it, with all the quoting that file names need
    esac
    compopt +o default
    return 0
}

# The words up to the cursor, with those that readline parts at : and = put together again; `kept` is what it
# leaves alone of the last one.
_ask_read_line() {
    local line=${COMP_LINE:0:COMP_POINT} word sign i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $i == 0 || $line == [[:space:]]* ]]; then
            line=${line#"${line%%[![:space:]]*}"}
            words+=('')
        fi
        [[ $line == "$word"* ]] || word=$line
        words[-1]+=$word
        line=${line#"$word"}
    done
    current=${words[-1]}
    if [[ $current == [\"\']* ]]; then
        current=${current:1}
        return
    fi
    for sign in : =; do
        if [[ ${COMP_WORDBREAKS-} == *$sign* && $current == *$sign* ]]; then
            word=${current%"$sign"*}$sign
            [[ ${#word} -lt ${#kept} ]] || kept=$word
        fi
    done
}

# What is wanted at the cursor, as `kind`. No options follow a question of several words.
_ask_read_words() {
    local i=1 last=$((${#words[@]} - 1)) word value=''
    _ask_about ''
    while [[ $i -lt $last && " $commands " == *" ${words[i]} "* ]]; do
        command+=${command:+ }${words[i]}
        _ask_about "$command"
        i=$((i + 1))
    done
    kind=$rest
    [[ $i != "$last" || -z $commands ]] || kind=commands
    for (( ; i < last; i++)); do
        word=${words[i]}
        kind=$rest
        if [[ $word == -- ]]; then
            return
        elif [[ $word == -?* && $word != *[[:space:]]* ]]; then
            value=''
            _ask_value_of "$word"
            [[ -n $value ]] || continue
            i=$((i + 1))
            if [[ $i == "$last" ]]; then
                kind=$value
                return
            fi
            [[ $value != provider ]] || provider=${words[i]}
        elif [[ -z $command && -n $question ]]; then
            return
        else
            question=${question:-$word}
        fi
    done
    if [[ $current == --*=* ]]; then
        _ask_value_of "${current%%=*}"
        kind=${value:-nothing}
        current=${current#*=}
    elif [[ $current == -* ]]; then
        kind=options
    fi
    [[ $kind != commands || -n $command ]] || _ask_add_package_commands
    # What is no command begins the prompt, in which there may be files.
    [[ $kind != commands || -n $command || " $commands" == *" $current"* ]] || kind=$rest
}

_ask_add_package_commands() {
    local line
    while IFS= read -r line; do
        commands+=" ${line%%$'\t'*}"
    done < <(_ask_lines commands)
}

# Offer what the command of a package, the first word, takes at the cursor; fail if it is no such command.
_ask_offer_arguments() {  # WORD
    local -a found=()
    [[ ${words[1]} =~ ^[a-z][a-z0-9_-]*$ ]] || return 1
    mapfile -t found < <(_ask_lines arguments "$1" "${words[@]:1:${#words[@]}-2}")
    [[ ${found[0]-} == "${words[1]}"$'\t'* ]] || return 1
    found=("${found[@]:1}")
    _ask_offer "${found[*]%%$'\t'*}"
}

# Set `value` to what completes the argument behind an option; "" where it takes none, or has it with it.
_ask_value_of() {
    local option=$1 place
    if [[ $option == --provider=* ]]; then
        provider=${option#*=}
    elif [[ $option == --* ]]; then
        [[ " $values" != *" $option="* ]] || { value=${values#*"$option="} && value=${value%% *}; }
    else
        for ((place = 1; place < ${#option}; place++)); do
            if [[ " $values" == *" -${option:place:1}="* ]]; then
                value=" $values"
                value=${value#*" -${option:place:1}="}
                value=${value%% *}
                [[ $place == $((${#option} - 1)) ]] || value=''
                return
            fi
        done
    fi
}

_ask_offer() {  # WORDS: those that begin as the word at the cursor does
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current")
    _ask_cut
}

# Leave out what stands before the cursor and stays there; an option's own word is cut by `current` already.
_ask_cut() {
    local part=$kept
    [[ $part != --*=* ]] || part=${part#*=}
    COMPREPLY=("${COMPREPLY[@]#"$part"}")
}

# Ask the program, found by its name alone: Tab must not run whatever file is named on the line.
_ask_lines() {
    command ask --complete "$@" </dev/null 2>/dev/null || true
}

_ask_offer_lines() {
    local line lines=''
    while IFS= read -r line; do
        lines+=" ${line%%$'\t'*}"
    done < <(_ask_lines "$@")
    _ask_offer "$lines"
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *[:/] ]] || compopt -o nospace
}

# Ids with titles, the newest first, that the program has selected by id or title. Titles are shown where several ids
# remain, and never put on the line.
_ask_offer_titled() {  # KIND
    local line width=$((${COLUMNS:-80} - 2))
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(_ask_lines "$1" "$current")
    # 37 and 42 put what is offered on the line one after the other.
    if [[ ${#COMPREPLY[@]} -gt 1 && ${COMP_TYPE-} != 37 && ${COMP_TYPE-} != 42 ]]; then
        # A word of a title stays on the line: with an empty one among them, they have no common beginning.
        [[ ${COMPREPLY[0]} == "$current"* ]] || COMPREPLY+=('')
        COMPREPLY=("${COMPREPLY[@]/$'\t'/  }")
        COMPREPLY=("${COMPREPLY[@]/%/$(printf '%*s' "$((width / 2))" '')}")  # so wide that each has its own line
        for line in "${!COMPREPLY[@]}"; do
            COMPREPLY[line]=${COMPREPLY[line]:0:width}
        done
    else
        COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
    fi
    compopt -o nosort
}

_ask_offer_setting() {  # a key, then its value; fails where only the user can know it, or it is a file
    if [[ -z $question ]]; then
        _ask_offer "$_ask_keys"
    else
        _ask_offer_lines values "$current" "$question"
        [[ ${#COMPREPLY[@]} -gt 0 ]]
    fi
}

_ask_offer_parameters() {
    if [[ $current == reasoning_effort=* ]]; then
        _ask_offer "reasoning_effort=${_ask_efforts// / reasoning_effort=}"
    elif [[ $current != *=* ]]; then
        _ask_offer "${_ask_parameters// /= }="
        compopt -o nospace
    fi
}

_ask_offer_tools() {  # in a list with commas
    local before=''
    [[ $current != *,* ]] || before=${current%,*},
    _ask_offer "$before${_ask_tools// / "$before"}"
    compopt -o nospace
}

# Files behind an @, of which readline cannot tell itself how to quote them and which are folders.
_ask_offer_marked_files() {
    local i mark
    mapfile -t COMPREPLY < <(compgen -f -- "${current#@}")
    for i in "${!COMPREPLY[@]}"; do
        mark=' '
        [[ ! -d ${COMPREPLY[i]} ]] || mark=/
        printf -v "COMPREPLY[i]" '@%q%s' "${COMPREPLY[i]}" "$mark"
    done
    compopt -o nospace
}

complete -o default -F _ask ask
