# Finds Pythons of this machine that could run Gridwright, and what each lacks. Arguments: an environment that is
# looked at first, a minor version of Python that is preferred, a program that says what is lacking, its arguments.
environment=$1 minor=$2 program=$3
shift 3
# What is in it runs as whoever asks, root too.
trusted_way "${environment%/*}" && trusted_environment "$environment" || environment=
for each in ${environment:+"$environment/bin/python"} "python3.$minor" python3 python3.14 python3.13 python3.12 python3.11; do
    found=$(command -v "$each") || continue
    if "$found" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        "$found" -P -c "$program" "$@"
    fi
done
uname -m
