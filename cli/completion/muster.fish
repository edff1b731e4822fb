# Completion of the muster command for fish. The command itself says what there is (cli/complete.c).

function __muster_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l current (commandline -ct)
    for candidate in ($words[1] __complete $words[2..-1] 2>/dev/null)
        switch $candidate
            case ':files'
                set -l kept (string match -r -- '^-[^=]*=' $current)
                for path in (__fish_complete_path (string replace -r -- '^-[^=]*=' '' $current))
                    echo "$kept$path"
                end
            case ':command *'
                set -l first (math (string replace ':command ' '' $candidate) + 2)
                # Words of another command: its name, or its own completions.
                if test $first -gt (count $words)
                    set first (count $words)
                end
                complete -C (string join ' ' -- $words[$first..-1])
            case '*'
                echo $candidate
        end
    end
end

complete -c muster -f -a '(__muster_complete)'
