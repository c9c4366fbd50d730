#include <gloo/names.h>  // see there
