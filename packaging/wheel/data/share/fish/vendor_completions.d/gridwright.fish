gridwright completion fish | source
