# Completion of the muster command for bash. The command itself says what there is (cli/complete.c).

_muster()
{
    # bash cuts words at = and : too; here they are joined again, up to the cursor.
    local all=${COMP_LINE:0:COMP_POINT} words=() word i
    local line=$all
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 0)) && [[ ${line:-${all: -1}} != [[:blank:]]* ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        line=${line#"${line%%[![:blank:]]*}"}
        line=${line#"$word"}
    done
    word=${words[${#words[@]} - 1]}
    COMPREPLY=()
    local candidate
    while IFS= read -r candidate; do
        case $candidate in
        :files)
            local value=${word#-*=}
            compopt -o filenames 2> /dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$value")
            return
            ;;
        :command\ *)
            # The line of another command, from that word on.
            local first=$((${candidate#:command } + 1))
            if declare -F _command_offset > /dev/null; then
                _command_offset "$first"
            elif ((first == ${#words[@]} - 1)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$word")
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$word")
            fi
            return
            ;;
        *) COMPREPLY+=("${candidate%%$'\t'*}") ;;
        esac
    done < <("${COMP_WORDS[0]}" __complete "${words[@]:1}" 2> /dev/null)
    # What stands before the last = or : is in words of its own.
    local kept=${word%"${word##*[=:]}"}
    [[ -n $kept && $COMP_WORDBREAKS == *[=:]* ]] && COMPREPLY=("${COMPREPLY[@]#"$kept"}")
}

complete -F _muster muster
