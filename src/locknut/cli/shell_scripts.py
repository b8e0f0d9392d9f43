"""The scripts that teach bash, zsh and fish to complete `locknut` (see `completion`)."""

from __future__ import annotations

_BASH = r"""# bash completion for locknut: source <(locknut completion bash)
_locknut() {
    local typed=${COMP_LINE:0:COMP_POINT} word kept candidate
    # Bash breaks words at : and =, which the names of locks and URLs have. So we hand over the
    # line as it is, and leave out of each candidate what stands before the last of these.
    word=${typed##*[[:space:]]}
    kept=${word%"${word##*[:=]}"}
    COMPREPLY=()
    while IFS= read -r candidate; do
        case $candidate in
            :commands) mapfile -t COMPREPLY < <(compgen -c -- "$word") ;;
            :files) compopt -o default ;;
            *)
                candidate=${candidate%%$'\t'*}
                COMPREPLY+=("$(printf %q "${candidate#"$kept"}")") ;;
        esac
    done < <(locknut completion candidates --line "$typed" 2>/dev/null)
}
complete -F _locknut locknut
"""

_ZSH = r"""#compdef locknut
# zsh completion for locknut: source <(locknut completion zsh), or a file _locknut in $fpath
_locknut() {
    local line
    local -a names abouts
    while IFS= read -r line; do
        case $line in
            :commands) _command_names -e; return ;;
            :files) _files; return ;;
            *)
                names+=("${line%%$'\t'*}")
                abouts+=("${line//$'\t'/  -- }") ;;
        esac
    done < <(locknut completion candidates -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    (( $#names )) && compadd -l -d abouts -a names
}
if [[ $funcstack[1] == _locknut ]]; then
    _locknut "$@"
else
    compdef _locknut locknut
fi
"""

_FISH = r"""# fish completion for locknut: locknut completion fish | source
function __locknut_candidates
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l found (locknut completion candidates -- $words[2..-1] "$word" 2>/dev/null)
    switch "$found[1]"
        case ':commands'
            complete -C "$word"
        case ':files'
            __fish_complete_path "$word"
        case '*'
            printf '%s\n' $found
    end
end
complete -c locknut -f -a '(__locknut_candidates)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
