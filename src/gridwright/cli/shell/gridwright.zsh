#compdef gridwright
# Completion of gridwright in zsh: the command itself says what may follow.
_gridwright() {
    local -a answer described
    local line word
    answer=("${(@f)$("${~words[1]}" completion zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    for line in "${(@)answer[2,-1]}"; do
        word=${${line%%$'\t'*}//\\/\\\\}
        described+=("${word//:/\\:}:${line#*$'\t'}")
    done
    # The value of --flag=value is what is completed.
    [[ $PREFIX == --*=* ]] && compset -P '*='
    ((${#described})) && _describe gridwright described
    case ${answer[1]} in
    grids) _files -g '*.(yaml|yml)(-.)' ;;
    files) _files ;;
    directories) _files -/ ;;
    esac
}
if [[ $funcstack[1] == _gridwright ]]; then
    _gridwright "$@"
else
    compdef _gridwright gridwright
fi
