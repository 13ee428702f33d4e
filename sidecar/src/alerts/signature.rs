//! Signatures as Standard Webhooks 1.0 describes them: HMAC-SHA256 over id, time and body.
//!
//! The id is the same on every try, so that a receiver can drop doubles; the time is that of the try, so that it can
//! refuse what is replayed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// The value of `webhook-signature`.
pub(super) fn sign(secret: &[u8], id: &str, timestamp_s: u64, body: &str) -> String {
    // HMAC takes keys of any length: this cannot fail, and an unsigned message would be refused by its receiver.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    mac.update(format!("{id}.{timestamp_s}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification_s_libraries_verifies() {
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
