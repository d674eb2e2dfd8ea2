# ask: a part of bash 5. All that it defines begins with __ask, but for the function ask-explain.
# shellcheck shell=bash

# Turn the words on the line into a command, for the user to read and run. Where there is none, the line stays.
__ask_line() {
    local answer='' status=0
    [[ ${READLINE_LINE-} == *[![:space:]]* ]] || return 0
    __ask_shielded __ask_for_command || status=$?
    # What readline would show otherwise than it runs is not put on the line.
    if [[ $status == 0 && -n $answer && ${answer//[$'\n\t']/} != *[[:cntrl:]]* ]]; then
        READLINE_LINE=$answer
        READLINE_POINT=${#answer}
        # Nor does bash replace a ! in it by a command of the history: not until the next prompt.
        [[ $- != *H* ]] || { __ask_histexpand=1 && set +H; }
    fi
}

__ask_for_command() {
    local status=0
    printf 'asking...\r' >&2  # an error is longer, and takes its place
    answer=$(command ask -q --cmd --no-stdin -- "$READLINE_LINE") || status=$?
    printf '\e[K' >&2
    return "$status"
}

__ask_explain() {
    __ask_shielded __ask_explain_failure || true
}

# Run something from a key: Ctrl-C ends it, and neither the line nor the user's own trap.
__ask_shielded() {
    local status=0 trap_before
    trap_before=$(trap -p INT)
    trap ':' INT
    "$@" || status=$?
    eval "${trap_before:-trap - INT}"
    return "$status"
}

# After each command: keep the text and the status of one that failed. The history's number tells whether there was
# a command at all; its text is asked for after a failure alone, since that takes a fork.
__ask_remember() {
    local status=$? number='\!'
    [[ -z ${__ask_histexpand-} ]] || { __ask_histexpand='' && set -H; }
    number=${number@P}
    if [[ $status != 0 && $status != 130 && ($number != "${__ask_number-}" || $status != "${__ask_last-}") ]]; then
        __ask_failed=$(HISTTIMEFORMAT='' builtin history 1 2>/dev/null) || __ask_failed=''
        # What comes first is its number, with a mark behind it where the user has changed the line.
        [[ ! $__ask_failed =~ ^' '*[0-9]+[*' ']' '(.*) ]] || __ask_failed=${BASH_REMATCH[1]}
        __ask_status=$status
    fi
    __ask_number=$number
    __ask_last=$status
    return "$status"
}

# Explain the last command that failed: from its text, its status and, under tmux, what it printed.
__ask_explain_failure() {
    if [[ -n ${__ask_readonly-} ]]; then
        printf 'ask: PROMPT_COMMAND is read-only, so ask does not know which command failed\n' >&2
        return 1
    fi
    if [[ -z ${__ask_failed-} ]]; then
        printf 'ask: no command has failed in this shell\n' >&2
        return 1
    fi
    local question shown=''
    # The command comes first, because it becomes the title of the conversation.
    question=$__ask_failed$'\n\n'
    question+="This command failed in bash with exit status $__ask_status. Say why, and how to put it right. Be brief."
    if [[ -n ${TMUX-} && -n ${TMUX_PANE-} ]]; then
        __ask_read_screen
        question+=$'\n\nWhat is piped in is what the terminal showed.'
        command ask --no-tools -- "$question" <<<"$shown"
    else
        command ask --no-tools --no-stdin -- "$question"
    fi
}
[[ -o posix ]] || ask-explain() { __ask_explain_failure; }  # POSIX mode refuses a name with a hyphen

# Set `shown` to what the terminal shows from the line on that ends in the command that failed.
__ask_read_screen() {
    local line place from=0 lines=() command=${__ask_failed##*$'\n'}
    mapfile -t lines < <(tmux capture-pane -p -J -S -300 -t "$TMUX_PANE" 2>/dev/null)
    for place in "${!lines[@]}"; do
        line=${lines[place]%"${lines[place]##*[![:space:]]}"}
        [[ $line != *"$command" ]] || from=$place
    done
    printf -v shown '%s\n' "${lines[@]:from}"
    shown=${shown%"${shown##*[![:space:]]}"}
}

# Bind a key in emacs and vi mode; a usual one only where the user has not bound it, as `__ask_bound` tells.
__ask_bind() {  # KEY FUNCTION NAMED
    local map bound
    [[ -n $1 ]] || return 0
    for map in emacs vi-insert vi-command; do
        bound=${__ask_bound#*"== $map"}
        if [[ $3 == 1 || ${bound%%$'\n== '*} != *$'\n'"\"$1\": "* ]]; then
            bind -m "$map" -x "\"$1\": $2"
        fi
    done
}

# What the user has bound to the keys. Not by bash alone, which takes long to look through so many lines.
__ask_list_bound() {
    local map
    for map in emacs vi-insert vi-command; do
        echo "== $map"
        bind -m "$map" -psX
    done | grep -F -e '== ' -e '"''{{key}}''": ' -e '"''{{explain_key}}''": '
}

__ask_start() {
    # A name for this shell, so that `ask -c` goes on with what was asked here. One that the user gave stays.
    if [[ -z ${ASK_SESSION-} || ($ASK_SESSION == shell-* && $ASK_SESSION != "${__ask_session-}") ]]; then
        __ask_session=shell-$$-${EPOCHREALTIME//[!0-9]/}
        export ASK_SESSION=$__ask_session
    fi
    # shellcheck disable=SC2030,SC2031  # the assignment in the subshell only shows whether it is possible
    if [[ "${PROMPT_COMMAND[*]-}" == *__ask_remember* ]]; then
        :
    elif ! (PROMPT_COMMAND='') 2>/dev/null; then
        __ask_readonly=1  # as some administrators set it: https://github.com/starship/starship/issues/4019
    elif ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 501)); then
        # shellcheck disable=SC2178,SC2128  # no array in these versions
        PROMPT_COMMAND=__ask_remember${PROMPT_COMMAND:+; $PROMPT_COMMAND}
    elif [[ -v PROMPT_COMMAND[@] ]]; then
        PROMPT_COMMAND+=(__ask_remember)
    else
        PROMPT_COMMAND=([1]=__ask_remember)  # not the first, which a later PROMPT_COMMAND=... replaces
    fi
    complete -p ask &>/dev/null || complete -o default -F __ask_load ask
    [[ -o emacs || -o vi ]] || return 0  # as in bash -ic, where there is no line to edit
    local __ask_bound
    __ask_bound=$(__ask_list_bound) || __ask_bound=''
    __ask_bind '{{key}}' __ask_line '{{key_named}}'
    __ask_bind '{{explain_key}}' __ask_explain '{{explain_key_named}}'
}

# Completions are read when they are first wanted.
__ask_load() {
    # shellcheck source=/dev/null
    . '{{completions}}' && return 124
}

if [[ $- == *i* ]]; then
    __ask_start
fi
