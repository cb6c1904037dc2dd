"""Jobs and what starts them: the protocol of schedulers, and one package for each."""
