#include "../../../cukern_cub.h"
