# ask: a part of fish 3.1 or later. All that it defines begins with __ask, but for the function ask-explain.

# Turn the words on the line into a command, for the user to read and run. Where there is none, the line stays.
function __ask_line
    set -l words (commandline | string collect)
    string match -q -r '\S' -- $words
    or return
    printf '\r\e[Kasking...\r' >&2 # an error is longer, and takes its place
    function __ask_interrupted --on-signal INT # which ends this function too
        functions -e __ask_interrupted
        printf '\r\e[K' >&2
        commandline -f repaint
    end
    set -l answer (command ask -q --cmd --no-stdin -- $words | string collect)
    set -l result $pipestatus[1]
    functions -e __ask_interrupted
    printf '\e[K' >&2
    # What would show otherwise than it runs is not put on the line.
    if test $result = 0; and test -n "$answer"; and not string match -q -r '[^\PC\n\t]' -- "$answer"
        commandline -r -- $answer
    end
    commandline -f repaint
end

function __ask_explain
    printf '\n'
    ask-explain
    commandline -f repaint
end

# After each command: keep the text and the status of one that failed, but for one hidden from the history.
function __ask_remember --on-event fish_postexec
    set -l failure $status
    if test $failure -ne 0 -a $failure -ne 130; and not string match -q ' *' -- $argv[1]
        set -g __ask_failed $argv[1]
        set -g __ask_status $failure
    end
end

# Explain the last command that failed: from its text, its status and, under tmux, what it printed.
function ask-explain
    if not set -q __ask_failed
        echo 'ask: no command has failed in this shell' >&2
        return 1
    end
    set -l question "This command failed in fish with exit status $__ask_status. Say why, and how to put it right. Be brief."
    # The command comes first, because it becomes the title of the conversation.
    set question $__ask_failed\n\n$question
    if set -q TMUX TMUX_PANE
        set question $question\n\n"What is piped in is what the terminal showed."
        __ask_screen | command ask --no-tools -- $question
    else
        command ask --no-tools --no-stdin -- $question
    end
end

# What the terminal shows from the line on that ends in the command that failed.
function __ask_screen
    set -l lines (tmux capture-pane -p -J -S -300 -t $TMUX_PANE 2>/dev/null)
    set -l tail (string escape --style=regex -- (string split \n -- $__ask_failed)[-1])'\s*$'
    set -l from 1
    for place in (seq (count $lines))
        if string match -q -r -- $tail $lines[$place]
            set from $place
        end
    end
    printf '%s\n' $lines[$from..-1]
end

# Bind a key in emacs and vi mode; a usual one only where the user has not bound it.
function __ask_bind -a key function named
    test -n "$key"
    or return 0
    for mode in default insert
        if test $named = 1; or not bind --user -M $mode $key >/dev/null 2>&1
            bind -M $mode $key $function
        end
    end
end

if status is-interactive
    # A name for this shell, so that `ask -c` goes on with what was asked here. One that the user gave stays.
    if not set -q ASK_SESSION[1]; or begin
            string match -q 'shell-*' -- $ASK_SESSION
            and test "$ASK_SESSION" != "$__ask_session"
        end
        set -g __ask_session shell-$fish_pid-(random)(random)
        set -gx ASK_SESSION $__ask_session
    end
    __ask_bind '{{key}}' __ask_line '{{key_named}}'
    __ask_bind '{{explain_key}}' __ask_explain '{{explain_key_named}}'
    # Behind the user's own folders, and read when completions are first wanted.
    if not contains -- '{{completions_folder}}' $fish_complete_path
        set -g fish_complete_path $fish_complete_path '{{completions_folder}}'
    end
end
