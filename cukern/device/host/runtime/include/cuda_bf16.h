#include "../cukern_half.h"
