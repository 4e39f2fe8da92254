// Nothing to add: cukern_host.h declares it.
