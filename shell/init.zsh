# ask: a part of zsh 5.5 or later. All that it defines begins with __ask, but for the function ask-explain.

# Turn the words on the line into a command, for the user to read and run. Where there is none, the line stays.
__ask_line() {
  emulate -L zsh
  local answer
  [[ $BUFFER == *[^[:space:]]* ]] || return 0
  trap ':' INT  # in this function alone: Ctrl-C ends `ask`, and keeps the line
  zle -R 'asking...'
  if answer=$(command ask -q --cmd --no-stdin -- "$BUFFER" 2>&1); then
    # What would show otherwise than it runs is not put on the line.
    if [[ -n $answer && ${answer//[$'\n\t']/} != *[[:cntrl:]]* ]]; then
      BUFFER=$answer
      CURSOR=$#BUFFER
    fi
    zle -R
  else
    zle -M -- "$answer"
  fi
}

__ask_explain() {
  emulate -L zsh
  trap ':' INT
  zle -I
  ask-explain
}

# Before and after each command: keep the text and the status of one that failed, but for one hidden from the history.
__ask_preexec() {
  if [[ -o hist_ignore_space && $1 == ' '* ]]; then
    __ask_typed=''
  else
    __ask_typed=$1
  fi
}

__ask_precmd() {
  local failure=$?
  if [[ $failure != 0 && $failure != 130 && -n ${__ask_typed-} ]]; then
    __ask_failed=$__ask_typed
    __ask_status=$failure
  fi
  __ask_typed=''
}

# Explain the last command that failed: from its text, its status and, under tmux, what it printed.
ask-explain() {
  emulate -L zsh
  setopt extended_glob
  if [[ -z ${__ask_failed-} ]]; then
    print -r -- 'ask: no command has failed in this shell' >&2
    return 1
  fi
  local question shown
  # The command comes first, because it becomes the title of the conversation.
  question=$__ask_failed$'\n\n'
  question+="This command failed in zsh with exit status $__ask_status. Say why, and how to put it right. Be brief."
  if [[ -n ${TMUX-} && -n ${TMUX_PANE-} ]]; then
    __ask_read_screen
    question+=$'\n\nWhat is piped in is what the terminal showed.'
    command ask --no-tools -- "$question" <<<"$shown"
  else
    command ask --no-tools --no-stdin -- "$question"
  fi
}

# Set `shown` to what the terminal shows from the line on that ends in the command that failed.
__ask_read_screen() {
  local last=${__ask_failed##*$'\n'} place from=1
  local -a lines=("${(@f)$(tmux capture-pane -p -J -S -300 -t "$TMUX_PANE" 2>/dev/null)}")
  for place in {1..$#lines}; do
    [[ ${lines[place]%%[[:space:]]#} != *"$last" ]] || from=$place
  done
  shown=${(F)lines[from,-1]}
}

# Bind a key in emacs and vi mode; a usual one only where the user has not bound it.
__ask_bind() {  # KEY WIDGET NAMED
  emulate -L zsh
  [[ -n $1 ]] || return 0
  local map place=0
  local -a maps=(emacs viins vicmd)
  local -a bound=("${(@f)$(for map in $maps; do bindkey -M $map -- $1; done)}")
  zle -N $2
  for map in $maps; do
    (( ++place ))
    if [[ $3 == 1 || ${bound[place]##* } == (undefined-key|accept-and-hold) ]]; then
      bindkey -M $map -- $1 $2
    fi
  done
}

__ask_start() {
  emulate -L zsh
  # A name for this shell, so that `ask -c` goes on with what was asked here. One that the user gave stays.
  if [[ -z ${ASK_SESSION-} || ( $ASK_SESSION == shell-* && $ASK_SESSION != "${__ask_session-}" ) ]]; then
    zmodload zsh/datetime
    typeset -g __ask_session=shell-$$-${EPOCHREALTIME//[^0-9]/}
    export ASK_SESSION=$__ask_session
  fi
  if (( ! ${precmd_functions[(I)__ask_precmd]-0} )); then
    typeset -ga precmd_functions preexec_functions
    precmd_functions+=(__ask_precmd)
    preexec_functions+=(__ask_preexec)
  fi
  if (( $+functions[compdef] )) && (( ! ${+_comps[ask]} )); then
    compdef __ask_complete ask
  fi
  [[ -o zle ]] || return 0
  __ask_bind '{{key}}' __ask_line '{{key_named}}'
  __ask_bind '{{explain_key}}' __ask_explain '{{explain_key_named}}'
}

# Completions are read when they are first wanted.
__ask_complete() {
  source '{{completions}}'
  _ask "$@"
}

if [[ -o interactive ]]; then
  __ask_start
fi
