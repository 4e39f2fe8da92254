// Nothing that kernels name is here alone.
#pragma once
