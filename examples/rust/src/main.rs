//! Users, rows and queries with Rowhouse. See README.md.

use rowhouse::{verify_token, Client, Error};
use serde::{Deserialize, Serialize};
use serde_json::{json, Number};
use std::{env, process::ExitCode};

/// An i64 has all digits of a bigint, a `Number` those of a numeric.
#[derive(Serialize, Deserialize)]
struct Tea {
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    name: String,
    price: Number,
    #[serde(skip_serializing_if = "Option::is_none")]
    barcode: Option<i64>,
}

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            match problem.downcast_ref() {
                Some(Error::Refused(refusal)) => eprintln!("{}: {refusal}", refusal.code),
                _ => eprintln!("{problem}"),
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome {
    let [url, key, project] = settings(["ROWHOUSE_URL", "ROWHOUSE_API_KEY", "ROWHOUSE_PROJECT"])?;
    let db = Client::new(&url, &key, &project);

    let (email, password) = (format!("ada+rust-{}@example.com", random()?), random()?);
    let signed_up = db.sign_up(&email, &password, json!({ "name": "Ada" }))?;
    println!("signed up: {}", signed_up.user.email);

    let session = db.sign_in(&email, &password)?.session;
    let claims = verify_token(&session.access_token, &key, &project)?;
    println!("signed in: {}, until {} UTC", claims.role, minute(&session.expires_at));

    insert_teas(&db, &claims.sub)?;
    read_teas(&db, &claims.sub)?;

    match db.page::<Tea>("example_tea", &[]) {
        Err(Error::Refused(refusal)) if refusal.code == "table_not_found" => {
            println!("refused: {} {}: {refusal}", refusal.status, refusal.code)
        }
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("a table that is not there was read".into()),
    }
    println!("done");
    Ok(())
}

fn insert_teas(db: &Client, user_id: &str) -> Outcome {
    let tea = |name: &str, price: &str, barcode| -> Outcome<Tea> {
        let price = price.parse()?;
        Ok(Tea { user_id: Some(user_id.into()), name: name.into(), price, barcode })
    };
    db.query::<Tea>(
        "create table if not exists example_teas (
           id bigint generated always as identity primary key,
           user_id uuid not null references auth.users on delete cascade,
           name text not null,
           price numeric(10, 2) not null,
           barcode bigint)",
        &[],
    )?;
    // More than 2^53, where a double would lose the last digit.
    let barcode = (1 << 53) + 1;
    let stored: Tea = db.insert("example_teas", &tea("Assam", "4.50", Some(barcode))?)?;
    assert_eq!(stored.barcode, Some(barcode));
    println!("inserted: {} at {}, barcode {barcode}", stored.name, stored.price);

    let many: Vec<Tea> = db.insert_many(
        "example_teas",
        &[
            tea("Genmaicha 玄米茶", "12.00", None)?,
            tea("Earl Grey, \"the Queen's\"", "9.99", None)?,
            tea("Mate", "3.80", None)?,
            tea("Oolong", "21.50", None)?,
        ],
    )?;
    println!("inserted: {} more", many.len());
    Ok(())
}

fn read_teas(db: &Client, user_id: &str) -> Outcome {
    let mine = format!("eq.{user_id}");
    for (index, rows) in db.pages::<Tea>("example_teas", &[("user_id", &mine), ("limit", "2")]).enumerate() {
        let names: Vec<String> = rows?.into_iter().map(|tea| tea.name).collect();
        println!("page {}: {}", index + 1, names.join(" | "));
    }

    let found = db.query::<Tea>(
        "select name, price from example_teas where user_id = $1 and price < $2 order by price",
        &[json!(user_id), json!(10)],
    )?;
    let found: Vec<String> = found.rows.iter().map(|tea| format!("{} {}", tea.name, tea.price)).collect();
    println!("under 10: {}", found.join(" | "));
    Ok(())
}

fn settings<const N: usize>(names: [&str; N]) -> Outcome<[String; N]> {
    let values = names.map(|name| env::var(name).unwrap_or_default());
    let missing: Vec<&str> =
        names.into_iter().zip(&values).filter(|(_, value)| value.is_empty()).map(|(name, _)| name).collect();
    if missing.is_empty() {
        Ok(values)
    } else {
        Err(format!("Please set {}: see README.md.", missing.join(", ")).into())
    }
}

fn minute(timestamp: &str) -> String {
    timestamp.get(..16).unwrap_or(timestamp).replace('T', " ")
}

fn random() -> Outcome<String> {
    let mut bytes = [0; 8];
    getrandom::getrandom(&mut bytes)?;
    Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
}
