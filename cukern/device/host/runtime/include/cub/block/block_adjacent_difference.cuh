#include "../../../cukern_cub_data.h"
