# Completion of gridwright in bash 4.4 or newer: the command itself says what may follow.
_gridwright() {
    local cur=${COMP_WORDS[COMP_CWORD]} line word
    local -a answer=()
    mapfile -t answer < <("${1/#\~/$HOME}" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    COMPREPLY=()
    for line in "${answer[@]:1}"; do
        word=${line%%$'\t'*}
        # bash puts words in as they are: what names of others hold must not be evaluated when the line is run.
        # Behind a quotation mark, what is safe depends on it; words that need no quotes are offered there.
        [[ $cur == *[\'\"]* && $word == *[!A-Za-z0-9_.,:=/@+-]* ]] && continue
        printf -v word %q "$word"
        COMPREPLY+=("$word")
    done
    # Where words fit, no path is offered: a directory called like a word would make it one.
    ((${#COMPREPLY[@]} > 0)) && return
    [[ $cur == "=" ]] && cur=
    cur=${cur#[\"\']}
    cur=${cur//\\/}
    case ${answer[0]} in
    grids)
        compopt -o filenames -o plusdirs
        mapfile -t COMPREPLY < <(compgen -f -X '!*.yaml' -- "$cur" ; compgen -f -X '!*.yml' -- "$cur")
        ;;
    directories)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        ;;
    files) compopt -o default ;;
    esac
}
complete -F _gridwright gridwright
