// Cooperative groups: the block, tiles of a warp, the lanes that are there, and the grid where it has one block.
#pragma once

namespace cooperative_groups {
namespace details {
inline unsigned lane() { return cukern::thread_rank() & 31; }

// A shuffle of a value of any size, 8 bytes at a time.
template <class T>
inline T shuffled(cukern::Collective what, unsigned mask, T value, int argument, int width, const char* file, int line) {
    if constexpr (sizeof(T) <= 8) {
        return cukern::shuffle(what, mask, value, argument, width, file, line);
    } else {
        constexpr unsigned words = (sizeof(T) + 7) / 8;
        unsigned long long bits[words] = {};
        __builtin_memcpy(bits, &value, sizeof(T));
        for (unsigned i = 0; i < words; ++i) bits[i] = cukern::shuffle(what, mask, bits[i], argument, width, file, line);
        __builtin_memcpy((void*)&value, bits, sizeof(T));
        return value;
    }
}

// The lane of the n-th member of a warp's lanes.
inline int nth_lane(unsigned lanes, unsigned n) {
    for (; n; --n) lanes &= lanes - 1;
    return lanes ? __builtin_ctz(lanes) : 0;
}
}  // namespace details

// A group of any kind: all threads of the block, or some lanes of a warp.
class thread_group {
   public:
    // `lanes` is 0 for the whole block.
    explicit thread_group(unsigned lanes) : lanes_(lanes) {}
    unsigned long long size() const { return num_threads(); }
    unsigned long long num_threads() const {
        return lanes_ ? (unsigned)__popc(lanes_) : blockDim.x * blockDim.y * blockDim.z;
    }
    unsigned long long thread_rank() const {
        return lanes_ ? (unsigned)__popc(lanes_ & ((1u << details::lane()) - 1)) : cukern::thread_rank();
    }
    void sync(CUKERN_HERE) const {
        if (lanes_) __syncwarp(lanes_, file, line);
        else __syncthreads(file, line);
    }
    unsigned lanes() const { return lanes_; }
    static constexpr bool is_valid() { return true; }

   protected:
    unsigned lanes_;
};

class thread_block : public thread_group {
   public:
    thread_block() : thread_group(0) {}
    static unsigned size() { return num_threads(); }
    static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned thread_rank() { return cukern::thread_rank(); }
    static void sync(CUKERN_HERE) { __syncthreads(file, line); }
    static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
    static dim3 dim_threads() { return group_dim(); }
    struct arrival_token {};
    // Nobody goes on from the wait before all have come; threads do not go on from the arrival either.
    arrival_token barrier_arrive(CUKERN_HERE) const { return __syncthreads(file, line), arrival_token(); }
    void barrier_wait(arrival_token) const {}
    void barrier_wait() const {}
};
inline thread_block this_thread_block() { return thread_block(); }

// Members of one warp that exchange values.
class warp_lanes : public thread_group {
   public:
    explicit warp_lanes(unsigned lanes) : thread_group(lanes) {}
    unsigned size() const { return num_threads(); }
    unsigned num_threads() const { return (unsigned)__popc(lanes_); }
    unsigned thread_rank() const { return (unsigned)__popc(lanes_ & ((1u << details::lane()) - 1)); }
    int any(int predicate, CUKERN_HERE) const { return __any_sync(lanes_, predicate, file, line); }
    int all(int predicate, CUKERN_HERE) const { return __all_sync(lanes_, predicate, file, line); }
    // A bit for each rank of the group.
    unsigned ballot(int predicate, CUKERN_HERE) const { return ranks(__ballot_sync(lanes_, predicate, file, line)); }
    template <class T>
    unsigned match_any(T value, CUKERN_HERE) const {
        return ranks(__match_any_sync(lanes_, value, file, line));
    }
    template <class T>
    unsigned match_all(T value, int& all, CUKERN_HERE) const {
        return ranks(__match_all_sync(lanes_, value, &all, file, line));
    }
    template <class T>
    T shfl(T value, int rank, CUKERN_HERE) const {
        // Beyond the last rank a GPU reads some lane or other: here one that the group has not, which is a mistake that is named.
        const unsigned count = num_threads();
        if (count < 32 && (unsigned)rank >= count)
            return details::shuffled(cukern::warp_shuffle, lanes_, value, __builtin_ctz(~lanes_), 32, file, line);
        return from(value, (unsigned)rank % count, file, line);
    }
    template <class T>
    T shfl_down(T value, unsigned delta, CUKERN_HERE) const {
        const unsigned rank = thread_rank() + delta;
        return from(value, rank < num_threads() ? rank : thread_rank(), file, line);
    }
    template <class T>
    T shfl_up(T value, unsigned delta, CUKERN_HERE) const {
        return from(value, delta <= thread_rank() ? thread_rank() - delta : thread_rank(), file, line);
    }

   protected:
    template <class T>
    T from(T value, unsigned rank, const char* file, int line) const {
        return details::shuffled(cukern::warp_shuffle, lanes_, value, details::nth_lane(lanes_, rank), 32, file, line);
    }
    unsigned ranks(unsigned lanes) const {
        unsigned found = 0, rank = 0;
        for (unsigned left = lanes_; left; left &= left - 1, ++rank)
            if (lanes & left & -left) found |= 1u << rank;
        return found;
    }
};

class coalesced_group : public warp_lanes {
   public:
    explicit coalesced_group(unsigned lanes, unsigned rank = 0, unsigned count = 1)
        : warp_lanes(lanes), meta_rank_(rank), meta_size_(count) {}
    unsigned meta_group_rank() const { return meta_rank_; }
    unsigned meta_group_size() const { return meta_size_; }

   private:
    unsigned meta_rank_, meta_size_;
};
inline coalesced_group coalesced_threads(CUKERN_HERE) { return coalesced_group(__activemask(file, line)); }

template <unsigned count, class Parent = void>
class thread_block_tile : public warp_lanes {
    static_assert(count && count <= 32 && !(count & (count - 1)),
                  "cukern's host: a tile has 1, 2, 4, 8, 16 or 32 threads; larger tiles run on a GPU alone");

   public:
    // `rank` and `size` are those of the thread in the group that is divided, and of that group.
    thread_block_tile(unsigned rank, unsigned size)
        : warp_lanes((count == 32 ? ~0u : (1u << (count & 31)) - 1) << (details::lane() & ~(count - 1))),
          meta_rank_(rank / count), meta_size_((size + count - 1) / count) {}
    // A tile's parent is a part of its type alone.
    template <class Other>
    thread_block_tile(const thread_block_tile<count, Other>& other)
        : thread_block_tile(other.meta_group_rank() * count, other.meta_group_size() * count) {}
    static constexpr unsigned size() { return count; }
    static constexpr unsigned num_threads() { return count; }
    static unsigned thread_rank() { return details::lane() & (count - 1); }
    unsigned meta_group_rank() const { return meta_rank_; }
    unsigned meta_group_size() const { return meta_size_; }
    template <class T>
    T shfl(T value, int rank, CUKERN_HERE) const {
        return details::shuffled(cukern::warp_shuffle, lanes_, value, rank, count, file, line);
    }
    template <class T>
    T shfl_down(T value, unsigned delta, CUKERN_HERE) const {
        return details::shuffled(cukern::warp_shuffle_down, lanes_, value, (int)delta, count, file, line);
    }
    template <class T>
    T shfl_up(T value, unsigned delta, CUKERN_HERE) const {
        return details::shuffled(cukern::warp_shuffle_up, lanes_, value, (int)delta, count, file, line);
    }
    template <class T>
    T shfl_xor(T value, unsigned mask, CUKERN_HERE) const {
        return details::shuffled(cukern::warp_shuffle_xor, lanes_, value, (int)mask, count, file, line);
    }

   private:
    unsigned meta_rank_, meta_size_;
};

template <unsigned count, class Parent>
inline thread_block_tile<count, Parent> tiled_partition(const Parent& parent) {
    return thread_block_tile<count, Parent>((unsigned)parent.thread_rank(), (unsigned)parent.num_threads());
}
inline thread_group tiled_partition(const thread_group& parent, unsigned count) {
    const unsigned rank = (unsigned)parent.thread_rank(), first = rank - rank % count;
    unsigned lanes = 0;
    const unsigned members = parent.lanes() ? parent.lanes() : 0xffffffffu;
    const unsigned start = parent.lanes() ? first : first & 31;
    for (unsigned i = start; i < start + count && i < (unsigned)__popc(members); ++i)
        lanes |= 1u << details::nth_lane(members, i);
    return thread_group(lanes);
}
inline coalesced_group tiled_partition(const coalesced_group& parent, unsigned count) {
    return coalesced_group(tiled_partition((const thread_group&)parent, count).lanes(), parent.thread_rank() / count,
                           (parent.num_threads() + count - 1) / count);
}
// The members of the group that have the same label.
template <class Group, class T>
inline coalesced_group labeled_partition(const Group& group, T label, CUKERN_HERE) {
    return coalesced_group(__match_any_sync(group.lanes(), label, file, line));
}
template <class Group>
inline coalesced_group binary_partition(const Group& group, bool which, CUKERN_HERE) {
    return labeled_partition(group, (int)which, file, line);
}

class grid_group {
   public:
    static bool is_valid() { return true; }
    static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long block_rank() {
        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    }
    static unsigned long long thread_rank() { return block_rank() * thread_block::num_threads() + cukern::thread_rank(); }
    static dim3 group_dim() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
    static dim3 dim_blocks() { return group_dim(); }
    static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static void sync(CUKERN_HERE) {
        if (num_blocks() == 1) return __syncthreads(file, line);
        if (cukern::runtime->cluster_size() != num_blocks())
            cukern::fault("grid_group::sync() of more than 8 blocks: on the host so many run at once; launch fewer, or divide the "
                          "kernel where it waits", file, line);
        cukern::runtime->cluster_arrive(true, file, line);
        cukern::runtime->cluster_wait(file, line);
    }
};
inline grid_group this_grid() { return grid_group(); }

class cluster_group {
   public:
    static unsigned num_blocks() { return cukern::runtime->cluster_size(); }
    static unsigned block_rank() { return cukern::runtime->cluster_rank(); }
    static unsigned num_threads() { return num_blocks() * thread_block::num_threads(); }
    static unsigned size() { return num_threads(); }
    static unsigned thread_rank() { return block_rank() * thread_block::num_threads() + cukern::thread_rank(); }
    struct arrival_token {};
    static arrival_token barrier_arrive(CUKERN_HERE) { return cukern::runtime->cluster_arrive(true, file, line), arrival_token(); }
    static void barrier_wait(arrival_token, CUKERN_HERE) { cukern::runtime->cluster_wait(file, line); }
    static void barrier_wait(CUKERN_HERE) { cukern::runtime->cluster_wait(file, line); }
    static void sync(CUKERN_HERE) {
        cukern::runtime->cluster_arrive(true, file, line);
        cukern::runtime->cluster_wait(file, line);
    }
    template <class T>
    static T* map_shared_rank(T* own, unsigned rank, CUKERN_HERE) {
        return (T*)cukern::runtime->map_shared((const void*)own, rank, file, line);
    }
    static constexpr bool is_valid() { return true; }
};
inline cluster_group this_cluster() { return cluster_group(); }

template <class Group>
inline void sync(const Group& group, CUKERN_HERE) {
    group.sync(file, line);
}
template <class Group, class Function>
inline void invoke_one(const Group& group, Function&& function) {
    if (group.thread_rank() == 0) function();
}

template <class T>
struct plus {
    T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct less {
    T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct greater {
    T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct bit_and {
    T operator()(T a, T b) const { return a & b; }
};
template <class T>
struct bit_or {
    T operator()(T a, T b) const { return a | b; }
};
template <class T>
struct bit_xor {
    T operator()(T a, T b) const { return a ^ b; }
};
}  // namespace cooperative_groups
