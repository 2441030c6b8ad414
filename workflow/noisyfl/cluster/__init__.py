"""Many runs in one allocation of a cluster: a pool of runs, and what serves it on the nodes."""
