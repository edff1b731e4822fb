# Completion of the muster command for bash.

_muster()
{
    local word=${COMP_WORDS[COMP_CWORD]} choices word_is_file=no
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        choices='devices pick explain exec partition sim kernel map scan bench version help --help --version'
    else
        case ${COMP_WORDS[1]} in
        devices)
            # What stands after these is a list.
            case ${COMP_WORDS[COMP_CWORD - 1]} in
            --devices | --slices) return ;;
            esac
            choices='--all --devices --slices --json --help'
            ;;
        version | --version) choices='--json --help' ;;
        pick | explain)
            case ${COMP_WORDS[COMP_CWORD - 1]} in
            --policy) choices='round-robin least-loaded weighted adaptive earliest-finish sticky' ;;
            --backend) choices='cpu cuda opencl sim' ;;
            # What stands after these is a size, a version or a list.
            --min-free | --min-cc | --device | --slices) return ;;
            *) choices='--policy --min-free --min-cc --backend --device --slices --json --help' ;;
            esac
            ;;
        exec)
            # From the first word that is no option on, it is another command's line.
            local i
            for ((i = 2; i < COMP_CWORD; i++)); do
                case ${COMP_WORDS[i]} in
                --policy | --min-free | --min-cc | --backend | --device) ((i++)) ;;
                --wait) [[ ${COMP_WORDS[i + 1]} == +([0-9]) ]] && ((i++)) ;;
                --) ((i++)) && break ;;
                -*) ;;
                *) break ;;
                esac
            done
            if ((i < COMP_CWORD)) || { ((i == COMP_CWORD)) && [[ ${COMP_WORDS[i - 1]} == -- || $word == [!-]* ]]; }; then
                if declare -F _command_offset > /dev/null; then
                    _command_offset "$i"
                elif ((i == COMP_CWORD)); then
                    mapfile -t COMPREPLY < <(compgen -c -- "$word")
                else
                    mapfile -t COMPREPLY < <(compgen -f -- "$word")
                fi
                return
            fi
            case ${COMP_WORDS[COMP_CWORD - 1]} in
            --policy) choices='round-robin least-loaded weighted adaptive earliest-finish sticky' ;;
            --backend) choices='cpu cuda opencl sim' ;;
            --min-free | --min-cc | --device) return ;;
            *) choices='--policy --min-free --min-cc --backend --device --wait --list --json --help --' ;;
            esac
            ;;
        bench) choices='--quick --json --help' ;;
        partition)
            # What stands after these is a number.
            case ${COMP_WORDS[COMP_CWORD - 1]} in
            --total | --devices) return ;;
            esac
            choices='--total --devices --json --help'
            ;;
        sim)
            case ${COMP_WORDS[COMP_CWORD - 1]} in
            --seed | --runs) return ;;
            --trace | --timeline) word_is_file=yes ;;
            esac
            choices='--seed --json --trace --timeline --everyone --runs --help'
            [[ $word == -* ]] || word_is_file=yes
            ;;
        kernel)
            case ${COMP_WORDS[COMP_CWORD - 1]} in
            --entry | --arch | --devices | --arg | -a | --elements | --inout | --whole | --halo | --items | --seed | --time-limit) return ;;
            --output | -o | --log) word_is_file=yes ;;
            esac
            if ((COMP_CWORD == 2)); then
                choices='build check list --help'
            else
                choices='--output --entry --arch --no-source --no-object --no-opencl --no-cuda --json --verbose --log --help'
                [[ ${COMP_WORDS[2]} == check ]] &&
                    choices='--entry --devices --arg --elements --inout --whole --halo --items --seed --time-limit --no-cuda --json
                             --verbose --log --help'
                [[ $word == -* ]] || word_is_file=yes
            fi
            ;;
        map)
            case ${COMP_WORDS[COMP_CWORD - 1]} in
            --kernel | -k | --in | -i | --out | -o | --trace | --timeline | --log) word_is_file=yes ;;
            # What stands after these is a name, a number or a list.
            --entry | --item | --out-item | --halo | --arg | -a | --devices | --affinity | --unit | --window) return ;;
            --policy)
                choices='claim round-robin least-loaded weighted adaptive earliest-finish sticky'
                mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
                return
                ;;
            --backend)
                mapfile -t COMPREPLY < <(compgen -W 'cpu cuda opencl sim' -- "$word")
                return
                ;;
            esac
            choices='--kernel --entry --in --out --item --out-item --y4m --halo --arg --devices --backend --policy
                     --affinity --unit --window --unordered --no-speculation --border --grid --planes --table
                     --skip --rest --quiet --json --trace --timeline --verbose --log --help'
            ;;
        scan)
            case ${COMP_WORDS[COMP_CWORD - 1]} in
            # What stands after these is a word, a list or a number.
            --word | -e | --devices | --unit) return ;;
            --file | -f) word_is_file=yes ;;
            esac
            choices='--word --file --count --byte-offset --only-matching --line-number --with-filename --no-filename
                     --grep-status --devices --unit --json --help'
            [[ $word == -* ]] || word_is_file=yes
            ;;
        help) choices='devices pick explain exec partition sim kernel map scan bench version help --help' ;;
        *) return ;;
        esac
    fi
    if [[ $word_is_file == yes ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
    fi
}

complete -F _muster muster
