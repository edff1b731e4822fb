# Completion of the muster command for bash.

_muster()
{
    local word=${COMP_WORDS[COMP_CWORD]} choices
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        choices='devices partition version help --help --version'
    else
        case ${COMP_WORDS[1]} in
        devices | version | --version) choices='--json --help' ;;
        partition)
            # What stands after these is a number.
            case ${COMP_WORDS[COMP_CWORD - 1]} in
            --total | --devices) return ;;
            esac
            choices='--total --devices --json --help'
            ;;
        help) choices='devices partition version help --help' ;;
        *) return ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
}

complete -F _muster muster
