"""Control flow over arrays: loops whose gradients keep few states, implicit functions, differential equations."""
