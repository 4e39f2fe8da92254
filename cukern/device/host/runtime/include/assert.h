// The host's own assert reports the block and thread. As in C, the last NDEBUG seen holds.
#undef assert
#ifdef NDEBUG
#define assert(...) ((void)0)
#else
#define assert(...)                                                                                 \
    ((__VA_ARGS__) ? (void)0 : cukern::fault("assertion failed: " #__VA_ARGS__, __FILE__, __LINE__))
#endif
