/* Coldstream's C interface. Generated from crates/capi: do not edit. docs/c-interface.md explains it.
 *
 * Rules for every function, unless its text says otherwise:
 * - Any thread may call it. Several threads may use a handle at once; calls on one writer wait for each other.
 *   Nobody may use a handle during its close or after it.
 * - Offsets and lengths are in bytes, times in nanoseconds.
 * - A result of type int32_t is 0 or a negative error number of errno.h. One of type int64_t is a count, or such a
 *   number. errno keeps its value.
 * - A function that makes a handle leaves NULL in its place after an error.
 * - A handle is the caller's until it closes it. Nothing else that is passed is kept after the call.
 * - NULL as a handle ends in -EINVAL, or in nothing. No exception, panic or abort comes out.
 * - A child of fork may only close the handles of its parent. It may call
 *   coldstream_create with the same options, unless another thread of the parent was in it at the time of the fork.
 */

#ifndef COLDSTREAM_H
#define COLDSTREAM_H

#include <stddef.h>
#include <stdint.h>

/*
 Requests of users.
 */
#define COLDSTREAM_FOREGROUND 0

/*
 Files become other files.
 */
#define COLDSTREAM_COMPACTION 1

/*
 Memory tables become files. A flush is never paced.
 */
#define COLDSTREAM_FLUSH 2

/*
 Files are verified or compared.
 */
#define COLDSTREAM_VALIDATION 3

/*
 Files are copied to or from elsewhere: backups, checkpoints.
 */
#define COLDSTREAM_STREAMING 4

/*
 Only the caller knows: it gives the mapping of a handover.
 */
#define COLDSTREAM_FORMAT_OPAQUE 0

/*
 A block-based table of RocksDB, or a table of LevelDB.
 */
#define COLDSTREAM_FORMAT_ROCKSDB 1

/*
 A `Data.db` of Cassandra. Its other components are beside it.
 */
#define COLDSTREAM_FORMAT_CASSANDRA 2

/*
 Version of this header. A function is never changed or removed within a version. The shared library's name for the
 dynamic loader ends with it.
 */
#define COLDSTREAM_INTERFACE_VERSION 1

/*
 For `coldstream_writer_open`: an existing file is emptied. Otherwise the file must not exist.
 */
#define COLDSTREAM_WRITER_TRUNCATE 1

/*
 The engine of this process. Its members are the library's own.
 */
typedef struct coldstream coldstream;

/*
 Pages of a file that were not cached at one moment. Its members are the library's own.
 */
typedef struct coldstream_absent coldstream_absent;

/*
 A finished file. Its members are the library's own.
 */
typedef struct coldstream_file coldstream_file;

/*
 A new file. Its members are the library's own.
 */
typedef struct coldstream_writer coldstream_writer;

/*
 What the bytes of a file mean: one of `COLDSTREAM_FORMAT_OPAQUE`, … It matters for handovers only.
 */
typedef uint32_t coldstream_format;

/*
 For whom bytes move: one of `COLDSTREAM_FOREGROUND`, `COLDSTREAM_COMPACTION`, …
 */
typedef uint32_t coldstream_activity;

/*
 Limits of one handover. 0 is none of its own. The configured ones hold in any case.
 */
typedef struct coldstream_handover_limits {
  /*
   Bytes that are read into the page cache.
   */
  uint64_t bytes_max;
  /*
   The time that it takes, in milliseconds.
   */
  uint64_t milliseconds_max;
} coldstream_handover_limits;

/*
 What a handover did.
 */
typedef struct coldstream_handover_result {
  /*
   Pages of 4 KiB of the output whose content was hot in the inputs.
   */
  uint64_t hot_pages;
  /*
   Pages of 4 KiB that were read into the page cache.
   */
  uint64_t warmed_pages;
  /*
   How long it took.
   */
  uint64_t nanoseconds;
} coldstream_handover_result;

/*
 A part of an input, and the part of the output that has its content.
 */
typedef struct coldstream_mapping {
  /*
   Index of the input.
   */
  uint32_t input;
  /*
   0.
   */
  uint32_t reserved;
  /*
   Where the part begins in the input.
   */
  uint64_t input_offset;
  /*
   Its length there.
   */
  uint64_t input_length;
  /*
   Where it begins in the output.
   */
  uint64_t output_offset;
  /*
   Its length there.
   */
  uint64_t output_length;
} coldstream_mapping;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Remembers which pages of a range are not in the page cache at present.

 Give the handle back by `coldstream_absent_drop`, before the file is closed.

 Returns 0, or `-EINVAL`, `-ENOMEM`, or an error of the kernel. Where it does not tell what is cached, as of
 other users' files that the process cannot write, nothing is remembered.

 # Safety
 The pointers are valid.
 */
int32_t coldstream_absent_take(const struct coldstream_file *file,
                               uint64_t offset,
                               uint64_t length,
                               struct coldstream_absent **absent);

/*
 Drops the remembered pages from the page cache, and frees the handle. Pages that were cached before stay, and those
 that have become hot.

 Returns 0, or `-EINVAL`.

 # Safety
 The handle is null, or was not given back, and its file is open.
 */
int32_t coldstream_absent_drop(struct coldstream_absent *absent);

/*
 Starts the engine of this process, or takes a further reference to it.

 A process has one engine and one status page, which `coldstream ctl`, `top` and `metrics` find. So later calls must
 give the same options in any order, or none. It is refused in a process that has the preload library too, or this
 library twice: the archive in one object, and another copy in a second one. `/proc` and `/dev/shm` tell of that.

 After `-EBUSY` because of another copy, `-ENOMEM` or `-ENOSYS` later calls return the same.

 The configuration file and environment variables hold for linked programs too: with a wrong value there is no engine.

 - `options`: NULL, or settings of docs/configuration.md as `reads=direct;writes=direct;handover=on;memory=64MiB`. They
   win over environment variables and the configuration file. Without them `visible` is `process`, and `log` is
   `none`.
 - `context`: gets the reference, or NULL after an error. Give it back by `coldstream_destroy`.
 - `error`: NULL, or room for `error_bytes`. It gets a text that says what is wrong and what to do. It is always
   terminated, and empty without an error.

 Returns 0, or:
 - `-EINVAL`: an argument or an option is wrong;
 - `-EBUSY`: the engine has other options, or the process has the preload library or a second copy of this one;
 - `-ENOSYS`: the kernel is older than 4.14;
 - `-ENOMEM`: no memory, or no address space.

 # Safety
 The pointers are null or valid, and texts are terminated.
 */
int32_t coldstream_create(const char *options,
                          struct coldstream **context,
                          char *error,
                          size_t error_bytes);

/*
 Gives a reference back. Close its files and writers before: the reference is no longer there for them.

 Threads, memory and status page of the engine stay until the process ends. An exit by `exit` writes what is left to
 be written, and removes the page.

 # Safety
 The context is null, or a reference that was not given back.
 */
void coldstream_destroy(struct coldstream *context);

/*
 Writes the path of the process's status page, terminated; 64 bytes are enough. Where `/dev/shm` cannot be used, there is no such file.

 Returns the length of the path, or `-EINVAL`, `-ENOENT` (the engine is off), `-ERANGE` (no room).

 # Safety
 The context is valid, and there is room for `path_bytes`.
 */
int64_t coldstream_status_path(const struct coldstream *context,
                               char *path,
                               size_t path_bytes);

/*
 The number of counters.
 */
size_t coldstream_counter_count(void);

/*
 The name of a counter, by its index. The text is static. NULL: there is no such counter.
 */
const char *coldstream_counter_name(size_t index);

/*
 Reads a counter of this process, by its name. With the engine off all are 0.

 Returns 0, or `-EINVAL`: an argument is wrong, or there is no such counter.

 # Safety
 The pointers are valid, and the name is terminated.
 */
int32_t coldstream_counter(const struct coldstream *context, const char *name, uint64_t *value);

/*
 Whether the engine works in this process: 1, or 0 if its configuration has it off.

 # Safety
 The context is null or valid.
 */
int32_t coldstream_is_on(const struct coldstream *context);

/*
 Opens a finished file for reading, by a descriptor of its own.

 Heat belongs to the file itself, so all handles of a file share it. Close the handle by `coldstream_file_close`.

 Returns 0, or an error of `open(2)`, or `-EINVAL`: an argument is wrong, or it is no regular file. In a signal handler
 that interrupted this library it is `-EAGAIN`.

 # Safety
 The pointers are valid, and the path is terminated.
 */
int32_t coldstream_file_open(const struct coldstream *context,
                             const char *path,
                             coldstream_format format,
                             struct coldstream_file **file);

/*
 Closes a file, and frees the handle. No thread may use it any more.

 # Safety
 The file is null, or a handle that is not closed.
 */
void coldstream_file_close(struct coldstream_file *file);

/*
 Reads as `pread(2)`: `length` bytes at `offset`, fewer only at the end of the file.

 - `COLDSTREAM_FOREGROUND` and `COLDSTREAM_FLUSH`: a plain read. That of the foreground is noted, so do not call
   `coldstream_note_read` for it.
 - Others: waits for the permit of pacing. Cached bytes come from the page cache, others around it, in large windows
   that are read ahead. Where this does not work, it is a plain read, and the reason is counted. The engine remembers
   the file as an input of the calling thread. The thread gets the priority of background threads (`priority`) until
   its next read of the foreground.

 Returns the bytes read, or an error of `pread(2)`.

 # Safety
 The file is valid, and the buffer is writable for `length` bytes.
 */
int64_t coldstream_file_read(const struct coldstream_file *file,
                             coldstream_activity activity,
                             uint64_t offset,
                             void *buffer,
                             size_t length);

/*
 Whether the engine reads ahead by itself for reads of this activity. Then the caller asks nobody else to: the pages
 would never be read, and a buffer of its own would only be copied. It may be otherwise at the next call.

 Returns 1 or 0, or `-EINVAL`.

 # Safety
 The file is null or valid.
 */
int32_t coldstream_file_reads_ahead(const struct coldstream_file *file,
                                    coldstream_activity activity);

/*
 The file will be deleted: its heat is forgotten, and its windows are closed. Call it before `unlink(2)`.

 # Safety
 The file is null or valid.
 */
void coldstream_file_forget(const struct coldstream_file *file);

/*
 Hands over to an output by the indexes of the files. Call it when the output is closed, before readers see it, in the
 thread of the compaction. It waits for the device.

 - `inputs`: the files of the compaction. NULL and 0: those that the calling thread has read in the background.
 - `limits`, `result`: may be NULL.

 An SSTable of Cassandra is the `Data.db`, by its own name. All its components are beside it, and the names of its last
 two directories, keyspace and CQL table, are those of its inputs.

 Returns the warmed pages. It is 0 too if the handover is off, nothing was hot, or something in a file is not
 known. The counters tell which. Errors: `-EINVAL` (an argument, or an opaque format), `-ENOMEM`, those of `fstat(2)`,
 and `-EAGAIN` in a signal handler that interrupted this library.

 # Safety
 All pointers are valid, and the inputs are as many as `input_count`.
 */
int64_t coldstream_handover(const struct coldstream *context,
                            struct coldstream_file *const *inputs,
                            size_t input_count,
                            const struct coldstream_file *output,
                            const struct coldstream_handover_limits *limits,
                            struct coldstream_handover_result *result);

/*
 Hands over to an output by the caller's mapping, for any format. As `coldstream_handover` otherwise.

 The ranges are sorted by input, then by offset in the input. They do not overlap there, and lie within the files. Their
 `reserved` is 0.

 Returns the warmed pages, or `-EINVAL` (an argument, or a range that is otherwise), or another error of
 `coldstream_handover`.

 # Safety
 All pointers are valid, and inputs and ranges are as many as their counts.
 */
int64_t coldstream_handover_mapped(const struct coldstream *context,
                                   struct coldstream_file *const *inputs,
                                   size_t input_count,
                                   const struct coldstream_file *output,
                                   const struct coldstream_mapping *ranges,
                                   size_t range_count,
                                   const struct coldstream_handover_limits *limits,
                                   struct coldstream_handover_result *result);

/*
 The caller is about to read a file in the foreground. Notes the heat of the range.

 It takes no lock, allocates nothing, and makes no system call. One read in 64 is timed, with pacing one in 16. After
 a read from the device the next four are timed, too.

 Returns 0, or a token: the read is to be timed. Then give the token to `coldstream_note_read_done`.

 # Safety
 The file is null or valid.
 */
uint64_t coldstream_note_read(const struct coldstream_file *file,
                              uint64_t offset,
                              size_t length);

/*
 The read is done for which `coldstream_note_read` returned this token. Call it in the same thread at once.

 # Safety
 The file is null or valid.
 */
void coldstream_note_read_done(const struct coldstream_file *file, uint64_t token);

/*
 Waits, if it must, before the calling thread reads or writes in the background. It waits for a second at most, and
 never in the foreground or in a flush. Hold no lock that the foreground needs.

 Returns the nanoseconds that it waited.

 # Safety
 The context is null or valid.
 */
uint64_t coldstream_pace(const struct coldstream *context,
                         coldstream_activity activity);

/*
 The calling thread has moved bytes in the background. `written` is 0 for a read.

 # Safety
 The context is null or valid.
 */
void coldstream_pace_moved(const struct coldstream *context,
                           coldstream_activity activity,
                           int written,
                           uint64_t bytes);

/*
 A foreground read of the caller's own took so many nanoseconds, from the device or not. Pacing follows these times.
 Where `coldstream_note_read` is used, this is not needed.

 # Safety
 The context is null or valid.
 */
void coldstream_note_latency(const struct coldstream *context,
                             uint64_t nanoseconds);

/*
 The version of the library, such as `0.1.0`. The text is static.
 */
const char *coldstream_version(void);

/*
 The version of the library's interface: its `COLDSTREAM_INTERFACE_VERSION`.
 */
uint32_t coldstream_interface_version(void);

/*
 Creates a file to which this handle alone appends. `mode` has its permissions, less the process's umask.

 Until a flush, a sync or the close other readers may see fewer bytes, but never wrong ones. Nobody else may write to
 the file meanwhile. A flush of memory tables goes around the page cache only with the option `flush=bypass`.
 The foreground's writes are plain.

 Returns 0, or an error of `open(2)`, or `-EINVAL`. In a signal handler that interrupted this library it is `-EAGAIN`.

 # Safety
 The pointers are valid, and the path is terminated.
 */
int32_t coldstream_writer_open(const struct coldstream *context,
                               const char *path,
                               coldstream_format format,
                               coldstream_activity activity,
                               uint32_t flags,
                               uint32_t mode,
                               struct coldstream_writer **writer);

/*
 Appends `length` bytes. Waits for the permit of pacing before, but not for a flush.

 Returns the bytes taken, as `write(2)`: fewer than `length` only if the next call has the error. Errors are those of
 `write(2)`, such as `-ENOSPC`. An error may belong to bytes of earlier calls. They stay, and the next call tries
 them again.

 # Safety
 The writer is valid, and the data is readable.
 */
int64_t coldstream_writer_append(struct coldstream_writer *writer,
                                 const void *data,
                                 size_t length);

/*
 The size of the file: all bytes taken.

 # Safety
 The writer is valid.
 */
int64_t coldstream_writer_size(const struct coldstream_writer *writer);

/*
 Brings all bytes taken to the kernel: every reader sees them then. They are not durable.

 Returns 0, or an error of `write(2)`.

 # Safety
 The writer is valid.
 */
int32_t coldstream_writer_flush(struct coldstream_writer *writer);

/*
 Makes all bytes taken durable, by `fsync(2)`, or by `fdatasync(2)` if `data_only` is not 0.

 Returns 0, or an error of `write(2)` or `fsync(2)`.

 # Safety
 The writer is valid.
 */
int32_t coldstream_writer_sync(struct coldstream_writer *writer, int data_only);

/*
 Starts the writeback of a range, and waits for it if `wait` is not 0. It makes nothing durable.

 Returns 0, or an error of `write(2)` or `sync_file_range(2)`.

 # Safety
 The writer is valid.
 */
int32_t coldstream_writer_range_sync(struct coldstream_writer *writer,
                                     uint64_t offset,
                                     uint64_t length,
                                     int wait);

/*
 Reserves blocks for a range, and leaves the size as it is.

 Returns 0, or an error of `fallocate(2)`, such as `-EOPNOTSUPP`.

 # Safety
 The writer is valid.
 */
int32_t coldstream_writer_allocate(struct coldstream_writer *writer, uint64_t offset, uint64_t length);

/*
 Cuts the file off, or extends it with zeros. Appends go on at the new end, after a cut by plain writes.

 Returns 0, or an error of `write(2)` or `ftruncate(2)`.

 # Safety
 The writer is valid.
 */
int32_t coldstream_writer_truncate(struct coldstream_writer *writer, uint64_t size);

/*
 Brings all bytes taken to the kernel, closes the file, and frees the handle, also after an error.

 Returns 0, or the error of a delayed write, or of `close(2)`. In a signal handler that interrupted this library it
 is `-EAGAIN`, and the handle stays.

 # Safety
 The writer is a handle that is not closed, and no other thread uses it.
 */
int32_t coldstream_writer_close(struct coldstream_writer *writer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* COLDSTREAM_H */
