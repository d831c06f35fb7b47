//! The reader of events, on this kernel. The tracer itself checks what its programs tell of a file of its own.

use coldstream_attach::Recognition;
use coldstream_attach::tracer::{Tracer, TracerError};
use coldstream_testkit::skip;

#[test]
fn the_kernel_takes_the_programs_and_they_tell_the_truth() {
    for recognition in [Recognition::Names, Recognition::Advice] {
        match Tracer::start(recognition) {
            Ok(mut tracer) => assert_eq!(tracer.drain(|_| {}), 0),
            Err(error @ (TracerError::NotPermitted | TracerError::Unsupported { .. })) => {
                return skip(error);
            }
            Err(error) => panic!("{recognition:?}: {error}"),
        }
    }
}
