#error "curand_kernel.h: the host has no cuRAND: its device generators run on a GPU alone; cukern.random fills arrays"
