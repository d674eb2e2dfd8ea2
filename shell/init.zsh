# ask: a part of zsh 5.5 or later. All that it defines begins with __ask, but for the function ask-explain.

# What of `ask` takes a value, and what is a command and no question.
__ask_value_options=('{{value_options}}')
__ask_value_letters='{{value_letters}}'
__ask_commands=('{{commands}}')

# Turn the words on the line into a command, for the user to read and run. Where there is none, the line stays.
__ask_line() {
  emulate -L zsh
  local answer mark=${histchars[1]-} caret=${histchars[2]-^}
  [[ $BUFFER == *[^[:space:]]* ]] || return 0
  trap ':' INT  # in this function alone: Ctrl-C ends `ask`, and keeps the line
  zle -R 'asking...'
  if answer=$(command ask -q --cmd --no-stdin -- "$BUFFER" 2>&1); then
    # What would show otherwise than it runs is not put on the line.
    if [[ -n $answer && ${answer//[$'\n\t']/} != *[[:cntrl:]]* ]]; then
      BUFFER=$answer
      # Nor does zsh replace a ! in it by a command of the history, after !" at the beginning.
      [[ ! -o bang_hist || -z $mark || $answer != (*"$mark"[^[:space:]=\(]*|"$caret"*) ]] || BUFFER=$mark'"'$answer
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
  # Other scripts define this widget anew, after this one was read.
  if [[ -o zle && ${widgets[zle-line-finish]-} != user:azhw:zle-line-finish ]]; then
    __ask_hook_line_finish
  fi
}

__ask_hook_line_finish() {
  emulate -L zsh
  (( $+functions[add-zle-hook-widget] )) || autoload -Uz +X add-zle-hook-widget 2>/dev/null || return 0
  zle -N __ask_line_finish
  add-zle-hook-widget -d line-finish __ask_line_finish
  add-zle-hook-widget line-finish __ask_line_finish
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

# zsh takes the ? in `ask why is the sky blue?` for a file pattern, and runs nothing. When a line is entered, what zsh
# would expand in the unquoted words of a question is therefore escaped; the rest of the line stays as it was typed.
__ask_line_finish() {
  local comments=0 special='[]()?*|<>' rest escaped=
  [[ ! -o interactive_comments ]] || comments=1
  [[ ! -o extended_glob ]] || special+='^#~'
  emulate -L zsh
  setopt extended_glob
  [[ $CONTEXT == start && $BUFFER == *[]\[\(\)?*\<^#~=\']* ]] || return 0
  rest=$BUFFER
  __ask_escape_questions 0
  [[ $escaped$rest == "$BUFFER" ]] || BUFFER=$escaped$rest
}

# Move `rest` to `escaped`, with its questions escaped. In a command substitution, stop at its end. Also stop where the
# lexer returns something else than was typed, and at a here-document.
__ask_escape_questions() {  # IN_SUBSTITUTION
  local state=command state_before state_after token space head word
  local -a tokens match mbegin mend
  integer in_substitution=$1 depth=0 is_first=0 is_question=0 in_alias=0 length
  __ask_split_line
  while (( $#tokens )); do
    token=$tokens[1]
    shift tokens
    space=${(M)rest##([[:blank:]]|\\$'\n')#}
    if [[ $token == ';' && $rest[$#space+1] == $'\n' ]]; then
      space=${(M)rest##([[:space:]]|\\$'\n')#}
      token=
    else
      space=${(M)rest##([[:space:]]|\\$'\n')#}
    fi
    [[ ${rest:$#space} == "$token"* && $token != '<<'(-|) ]] || return 0
    __ask_read_token "$token"
    (( depth >= 0 )) || return 0
    escaped+=$space
    rest=${rest:$#space}
    while [[ $token == *'$('* && ${token%%'$('*} != *[\'\\\`]* ]]; do
      head=${token%%'$('*}'$('
      escaped+=$head
      rest=${rest:$#head}
      length=$#rest
      __ask_escape_questions 1
      token=${token:$(( $#head + length - $#rest ))}
      is_question=0
    done
    if (( ! is_question )); then
      escaped+=$token
      rest=${rest:$#token}
    elif [[ $token == (#b)([^\'\"\`\$\\]#[[:alnum:]])\'* ]] && __ask_is_plain_text; then
      __ask_escape_word "$match[1]"
      escaped+="$word\\'"
      rest=${rest:$(( $#match[1] + 1 ))}
      __ask_split_line
    else
      __ask_escape_word "$token"
      escaped+=$word
      rest=${rest:$#token}
      [[ $token != (|\()\) ]] || __ask_split_line  # what follows was not read as words
    fi
  done
}

# Check that an apostrophe, as in what's, can be read as one and not as a quote. Whatever the shell would have taken for
# quoted text then becomes words, so nothing in the rest of the line may be more than that.
__ask_is_plain_text() {
  local text=${${rest//[^[:ascii:]]/}//\!([[:blank:]]|(#e))/}
  [[ $text != *([^[:alnum:][:blank:].,:?*/@%+=_\[\]\(\)\"\'^~\#-]|[[:blank:]]\#)* ]]
}

# Set `tokens` to those of `rest`, which begins in the middle of a word unless a command is expected.
__ask_split_line() {
  local line=$rest
  [[ $state == command ]] || line=": x$rest"
  if (( comments )); then
    tokens=("${(@Z+c+)line}")
  else
    tokens=("${(@z)line}")
  fi
  if [[ $state != command ]]; then
    tokens=("${tokens[2]:1}" "${(@)tokens[3,-1]}")
    [[ -n $tokens[1] ]] || shift tokens
  fi
}

# Set `is_question` to whether a token is a word of a question, and `state` to what can follow.
__ask_read_token() {  # TOKEN
  local text=${(Q)1} part
  is_question=0
  case $1 in
    (''|';'|';;'|';&'|';|'|'&'|'&&'|'&|'|'|'|'||'|'|&')
      state=command
      return ;;
    ((<->|)(\&|)[\<\>][\<\>\&\|!]#)
      state_before=$state
      state=target
      return ;;
    ('#'*) (( ! comments )) || [[ -z $space ]] || return 0 ;;
    (')')
      if [[ $state == array ]]; then
        state=command
      elif (( depth || in_substitution )) || [[ $state == (command|arguments) ]]; then
        (( --depth ))
        state=arguments
      else
        state=words
        is_question=1
      fi
      return ;;
  esac
  case $state in
    target) state=$state_before ;;
    value) state=$state_after ;;
    command)
      case $1 in
        ('(') (( ++depth )) ;;
        ('!'|'{'|-|if|then|elif|else|while|until|do|time|coproc|nocorrect|noglob|command|builtin|exec) ;;
        ([[:alpha:]_][[:alnum:]_]#(|\[*\])(|+)=*) [[ $1 != *=\( ]] || state=array ;;
        (sudo|doas|env|nice|nohup|timeout) state=prefixed ;;
        *)
          if [[ ${text:t} == ask ]]; then
            state=options is_first=1
          elif (( ! in_alias )) && [[ ${aliases[$1]-} == *ask* ]]; then
            in_alias=1
            for part in "${(@z)aliases[$1]}"; do
              __ask_read_token "$part"
            done
            in_alias=0 is_question=0
          else
            state=arguments
          fi ;;
      esac ;;
    prefixed)
      if [[ ${text:t} == ask ]]; then
        state=options is_first=1
      fi ;;
    words) is_question=1 ;;
    options|after_word|compare)
      if [[ $text == -- ]]; then
        state=words
      elif [[ $text == -[^[:space:]]* ]]; then
        if (( ${__ask_value_options[(Ie)$text]} )) || [[ $text == -[^-$__ask_value_letters]#[$__ask_value_letters] ]]; then
          state_after=$state
          state=value
        fi
      elif (( is_first )) && [[ $text == compare ]]; then
        state=compare
      elif (( is_first )) && [[ $text == chat ]]; then
        state=options
      elif (( is_first && ${__ask_commands[(Ie)$text]} )); then
        state=arguments
      else
        is_question=1
        case $state in
          options) state=after_word ;;
          after_word) state=words ;;
        esac
      fi
      [[ $text == (-C*|--cd*|--cwd*) ]] || is_first=0 ;;  # a command may follow the folder
  esac
}

# Set `word` to a word whose patterns and other characters that are special at its beginning are escaped. One with
# expansions that have an end of their own stays as it is.
__ask_escape_word() {  # WORD
  local left=$1 name piece
  local -a match mbegin mend
  word=
  if [[ $left == '=('* && -n $space ]]; then
    word=$left left=
  elif [[ $left == (#b)\~([^/]##)* ]]; then
    name=$match[1]
    (( $+userdirs[$name] || $+nameddirs[$name] )) || word='\~' left=${left:1}
  fi
  while [[ -n $left ]]; do
    case $left in
      (\\*) piece=${left[1,2]} ;;
      (\'*) piece=${(M)left##\'[^\']#(\'|)} ;;
      (\"*) piece=${(M)left##\"([^\"\\]|\\?)#(\"|)} ;;
      ([\;\&\`$'\n']*|[\<\>]\(*|\$[\(\{\[\']*|\$[[:alpha:]_][[:alnum:]_]#\[*) word=$1; return ;;
      (\$*) piece=${(M)left##\$([[:alnum:]_]##|[-?*#@!\$]|)} ;;
      *) piece=$left[1] ;;
    esac
    left=${left:$#piece}
    if [[ $piece == [$special] || ( $piece == '=' && -z $word ) || ( $piece == [=~\#] && $word == *[[:blank:]] ) ]]; then
      piece="\\$piece"
    fi
    word+=$piece
  done
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
