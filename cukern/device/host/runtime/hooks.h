// What a checked launch wants to know of the order in which threads run; nothing in all others. See checked/order.h.
#pragma once
#ifndef CUKERN_CHECKED

// One of the lanes; any if there are none.
static inline unsigned choose_lane(unsigned lanes) { return (unsigned)__builtin_ctz(lanes | 1u << 31); }
static inline void on_switch(unsigned) {}
static inline void on_warp_sync(unsigned, unsigned) {}
static inline void on_met(unsigned, unsigned) {}
// Which of the lanes that have come to an __activemask are active together with one of them.
static inline unsigned choose_active(const Wait*, unsigned, unsigned lanes) { return lanes; }
static inline void on_barrier(unsigned) {}
static inline void on_cluster_arrive(unsigned, bool) {}
static inline void on_cluster_wait(unsigned) {}
static inline void on_thread_end(unsigned) {}
static inline void on_block_end(unsigned) {}
// What a shuffle gives to a lane whose source is missing: its own value.
static inline unsigned long long on_missing_lane(const Wait* wait, unsigned, unsigned) { return wait->value; }
static inline void on_together(const Wait*) {}
static inline void on_together_done() {}
static inline unsigned on_send() { return 0; }
static inline void on_doing(const Operation&, unsigned, unsigned) {}
static inline void on_done(unsigned) {}
static inline void on_source(const void*, unsigned) {}
// Work on a barrier's own words, or what is there until an asynchronous copy has come, begins or ends.
static inline void on_quiet(bool) {}
static inline void on_beside() {}
static inline void on_beside_done() {}

#endif
