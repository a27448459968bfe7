//! Token, key and project come in, a line each; the claims go out as JSON, or why the token is refused.

use std::io::{self, BufRead};

fn main() {
    let lines: Vec<String> = io::stdin().lock().lines().map(|line| line.expect("text")).collect();
    match rowhouse::verify_token(&lines[0], &lines[1], &lines[2]) {
        Ok(claims) => println!(
            "{{\"sub\":{:?},\"email\":{:?},\"role\":{:?},\"iss\":{:?},\"iat\":{},\"exp\":{},\"sid\":{:?}}}",
            claims.sub, claims.email, claims.role, claims.iss, claims.iat, claims.exp, claims.sid
        ),
        Err(problem) => eprintln!("refused: {problem}"),
    }
}
