//! Access tokens of users, verified with nothing but the project key.

use base64::{engine::general_purpose::URL_SAFE_NO_PAD, Engine};
use hmac::{Hmac, Mac};
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use sha2::Sha256;
use std::{error, fmt, time::SystemTime};

/// What an access token says of its user.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Claims {
    pub sub: String,
    pub email: String,
    pub role: String,
    pub iss: String,
    pub iat: u64,
    pub exp: u64,
    pub sid: String,
}

/// Why a token is not to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidToken(&'static str);

/// Checks a token. It cannot see whether the user has signed out meanwhile: the service does, wherever it is used.
pub fn verify_token(token: &str, key: &str, project: &str) -> Result<Claims, InvalidToken> {
    let parts: Vec<&str> = token.split('.').collect();
    let (header, payload, signature) = match parts[..] {
        [header, payload, signature] => (header, payload, signature),
        _ => return Err(InvalidToken("it has not three parts")),
    };
    // The signature comes first, and always by HS256: nothing of a stranger's is parsed, nor chooses the algorithm.
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("a key has any length");
    mac.update(format!("{header}.{payload}").as_bytes());
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
    // In constant time.
    mac.verify_slice(&signature).map_err(|_| InvalidToken("its signature is wrong"))?;

    #[derive(Deserialize)]
    struct Header {
        alg: String,
    }
    if decode::<Header>(header)?.alg != "HS256" {
        return Err(InvalidToken("its algorithm is not HS256"));
    }
    let claims: Claims = decode(payload)?;
    if claims.iss != format!("rowhouse-auth:{project}") {
        return Err(InvalidToken("it is of another project"));
    }
    let now =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs());
    if claims.exp <= now {
        return Err(InvalidToken("it has expired"));
    }
    Ok(claims)
}

impl fmt::Display for InvalidToken {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str(self.0)
    }
}

impl error::Error for InvalidToken {}

fn decode<T: DeserializeOwned>(part: &str) -> Result<T, InvalidToken> {
    let text = URL_SAFE_NO_PAD.decode(part).map_err(|_| InvalidToken("it is not base64url"))?;
    serde_json::from_slice(&text).map_err(|_| InvalidToken("it lacks a claim"))
}
