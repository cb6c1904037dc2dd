# Completion of gridwright in fish: the command itself says what may follow.
function __gridwright_complete
    set -l current (commandline --current-token)
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l answer ($words[1] completion fish -- $words[2..] $current 2>/dev/null)
    set -l value (string replace --regex -- '^--[^=]*=' '' $current)
    set -l flag (string match --regex -- "^--[^=]*=" $current)
    for line in $answer[2..]
        echo "$flag$line"
    end
    switch "$answer[1]"
        case grids
            __fish_complete_path $value | string match --regex --entire -- '^[^\t]*(\.ya?ml|[^/\t]/)(\t|$)'
        case files
            __fish_complete_path $value
        case directories
            __fish_complete_directories $value
    end
end
complete --command gridwright --no-files --arguments '(__gridwright_complete)'
