// The texts of faults: where threads wait, and what they were doing.
#pragma once
static const char* const collective_names[] = {
    "__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or", "__syncwarp", "__shfl_sync",
    "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync", "__ballot_sync", "__all_sync", "__any_sync",
    "__match_any_sync", "__match_all_sync", "__reduce_add_sync", "__reduce_min_sync", "__reduce_min_sync",
    "__reduce_max_sync", "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync",
    "", "__activemask", "__nanosleep", ""};

static const char* name_of(const Wait* wait) {
    return wait->what == cukern::warp_together || wait->what == cukern::condition ? wait->name : collective_names[wait->what];
}

struct Text {
    char* at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void append(Text* text, const char* format, ...) {
    va_list values;
    va_start(values, format);
    const int written = vsnprintf(text->at, text->left, format, values);
    va_end(values);
    const size_t used = written < 0 ? 0 : (size_t)written < text->left ? (size_t)written : text->left - 1;
    text->at += used;
    text->left -= used;
}

static bool same_place(const Wait* a, const Wait* b) {
    return a->line == b->line && a->what == b->what && a->mask == b->mask &&
           (a->what != cukern::warp_together || a->work == b->work) && (a->what != cukern::condition || a->barrier == b->barrier) &&
           (a->file == b->file || strcmp(a->file, b->file) == 0);
}

static bool is_waiting(const Worker* w, unsigned i) {
    const Warp* warp = &w->warps[i / 32];
    return (warp->live & ~warp->runnable) >> (i % 32) & 1;
}

// One line for each place where live threads wait, in the order of their first thread.
static void append_waits(const Worker* w, Text* text) {
    bool told[max_places] = {};
    for (unsigned i = 0, places = 0; i < w->threads && places < 8; ++i) {
        if (told[i] || !is_waiting(w, i)) continue;
        unsigned alike = 0;
        const unsigned rank = rank_of(w, i);
        for (unsigned j = i + 1; j < w->threads && rank_of(w, j) == rank; ++j) {
            if (!is_waiting(w, j) || !same_place(w->waits[j], w->waits[i])) continue;
            told[j] = true;
            ++alike;
        }
        const Dim at = w->index[i];
        const Wait* wait = w->waits[i];
        append(text, "\n  thread (%u, %u, %u)", at.x, at.y, at.z);
        if (alike) append(text, " and %u more", alike);
        if (w->cluster > 1) {
            const Dim block = block_of(w, rank);
            append(text, " of block (%u, %u, %u)", block.x, block.y, block.z);
        }
        append(text, " at %s", name_of(wait));
        if (wait->what >= cukern::warp_sync && wait->what < cukern::warp_active_mask)
            append(text, " of lanes 0x%08x", wait->mask);
        if (wait->what == cukern::condition && wait->barrier) {
            const cukern::MBarrier* barrier = (const cukern::MBarrier*)now_at(w, rank, wait->barrier);
            append(text, " (phase %u lacks %u arrivals and %lld bytes)", (unsigned)barrier->phase,
                   (unsigned)barrier->pending, (long long)barrier->bytes);
        }
        append(text, ", %s:%d", wait->file, wait->line);
        ++places;
    }
}

[[noreturn]] static void report_divergence(Worker* w) {
    Text text = {w->message, message_bytes};
    const Dim first = block_of(w, 0);
    append(&text, "%s (%u, %u, %u): its threads wait for each other at different places",
           w->cluster > 1 ? "the cluster of block" : "block", first.x, first.y, first.z);
    append_waits(w, &text);
    give_up(w);
}

static void append_sender(const Worker* w, Text* text) {
    if (w->doing) append(text, ", in what %s left to be done beside, %s:%d", w->doing->name, w->doing->file, w->doing->line);
}
