//! A client for Rowhouse on ureq and serde. Copy it into your project.

mod token;

use percent_encoding::{utf8_percent_encode, AsciiSet, NON_ALPHANUMERIC};
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use serde_json::{json, Value};
use std::{error, fmt, io, time::Duration};

pub use token::{verify_token, Claims, InvalidToken};

/// One project, by its address and key. Cheap to clone; connections are kept and shared.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    authorization: String,
}

#[derive(Debug)]
pub enum Error {
    /// The service refused the request.
    Refused(Box<Refusal>),
    /// It could not be reached, did not answer in time, or the connection broke.
    Unreachable(Box<dyn error::Error + Send + Sync>),
    /// What was to be sent cannot be.
    Invalid(String),
    /// What came is no answer of Rowhouse, or its rows do not fit the type that was asked for.
    Unexpected { status: u16, problem: String },
}

/// Programs decide by `code`; `message` and `hint` are for people.
#[derive(Debug, Clone, Deserialize)]
pub struct Refusal {
    #[serde(skip)]
    pub status: u16,
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
    pub details: Option<Value>,
    #[serde(skip)]
    pub request_id: Option<String>,
}

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Deserialize)]
pub struct Signed {
    pub user: User,
    pub session: Session,
}

#[derive(Debug, Deserialize)]
pub struct User {
    pub id: String,
    pub email: String,
    pub role: String,
    pub data: Value,
}

#[derive(Debug, Deserialize)]
pub struct Session {
    pub access_token: String,
    pub refresh_token: String,
    pub expires_at: String,
}

/// What a query gave. `T` is a struct, or `serde_json::Map`, in which numbers keep all their digits.
#[derive(Debug, Deserialize)]
pub struct QueryResult<T> {
    pub columns: Vec<String>,
    pub rows: Vec<T>,
    pub command: String,
    pub affected: u64,
    pub truncated: bool,
}

#[derive(Debug, Deserialize)]
pub struct Page<T> {
    pub rows: Vec<T>,
    pub has_more: bool,
    pub next_cursor: Option<String>,
}

impl Client {
    /// A request has 35 seconds, since a query has 30.
    pub fn new(url: &str, api_key: &str, project: &str) -> Client {
        let agent = ureq::AgentBuilder::new()
            .timeout(Duration::from_secs(35))
            // The service sends nobody elsewhere; whoever does shall not get the key.
            .redirects(0)
            .build();
        let base = format!("{}/api/dbaas/v2/projects/{}", url.trim_end_matches('/'), segment(project));
        Client { agent, base, authorization: format!("Bearer {api_key}") }
    }

    /// Makes a new user; `data` is an object of yours, or null.
    pub fn sign_up(&self, email: &str, password: &str, data: Value) -> Result<Signed> {
        let mut body = json!({ "email": email, "password": password });
        if !data.is_null() {
            body["data"] = data;
        }
        self.post("/auth/signup", &body)
    }

    pub fn sign_in(&self, email: &str, password: &str) -> Result<Signed> {
        self.post("/auth/signin", &json!({ "email": email, "password": password }))
    }

    /// Runs one statement with values for `$1 … $n`.
    pub fn query<T: DeserializeOwned>(&self, sql: &str, params: &[Value]) -> Result<QueryResult<T>> {
        self.post("/query", &json!({ "query": sql, "params": params }))
    }

    /// Stores one row and gives it back with its defaults.
    pub fn insert<T: DeserializeOwned>(&self, table: &str, row: &impl Serialize) -> Result<T> {
        #[derive(Deserialize)]
        struct Inserted<T> {
            row: T,
        }
        let inserted: Inserted<T> = self.post(&table_path(table), row)?;
        Ok(inserted.row)
    }

    /// Stores all rows or none.
    pub fn insert_many<T: DeserializeOwned>(&self, table: &str, rows: &[impl Serialize]) -> Result<Vec<T>> {
        #[derive(Deserialize)]
        struct Inserted<T> {
            rows: Vec<T>,
        }
        let inserted: Inserted<T> = self.post(&table_path(table), &rows)?;
        Ok(inserted.rows)
    }

    /// One page: `limit`, `page`, `cursor`, `select`, `order`, and filters such as `("price", "lt.10")`.
    pub fn page<T: DeserializeOwned>(&self, table: &str, parameters: &[(&str, &str)]) -> Result<Page<T>> {
        let path = table_path(table);
        let request = self.request("GET", &path).query_pairs(parameters.iter().copied());
        read(request.call())
    }

    /// All pages, by cursor: each costs the same, however deep. Views have none, and go by number.
    pub fn pages<'a, T: DeserializeOwned + 'a>(
        &'a self,
        table: &'a str,
        parameters: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = Result<Vec<T>>> + 'a {
        let first =
            parameters.iter().find(|(name, _)| *name == "page").and_then(|(_, value)| value.parse().ok());
        let mut number: u64 = first.unwrap_or(1);
        let mut next = Some(None);
        std::iter::from_fn(move || {
            let following: Option<(&str, String)> = next.take()?;
            let mut asked = parameters.to_vec();
            if let Some((name, value)) = &following {
                asked.retain(|(name, _)| !["page", "cursor"].contains(name));
                asked.push((name, value));
            }
            let page = match self.page(table, &asked) {
                Ok(page) => page,
                Err(error) => return Some(Err(error)),
            };
            if page.has_more {
                number += 1;
                next = Some(Some(match page.next_cursor {
                    Some(cursor) => ("cursor", cursor),
                    None => ("page", number.to_string()),
                }));
            }
            Some(Ok(page.rows))
        })
    }

    fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        let body = serde_json::to_vec(body).map_err(|problem| Error::Invalid(problem.to_string()))?;
        read(self.request("POST", path).set("Content-Type", "application/json").send_bytes(&body))
    }

    fn request(&self, method: &str, path: &str) -> ureq::Request {
        let url = format!("{}{path}", self.base);
        self.agent.request(method, &url).set("Authorization", &self.authorization)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Error::Refused(refusal) => refusal.fmt(to),
            Error::Invalid(problem) => write!(to, "this cannot be sent: {problem}"),
            Error::Unreachable(problem) => write!(to, "there was no answer from the service: {problem}"),
            Error::Unexpected { status, problem } => {
                write!(to, "this is no answer as expected (HTTP {status}): {problem}")
            }
        }
    }
}

impl error::Error for Error {}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(to, " {hint}"),
            None => Ok(()),
        }
    }
}

fn read<T: DeserializeOwned>(answer: std::result::Result<ureq::Response, ureq::Error>) -> Result<T> {
    let (status, response) = match answer {
        Ok(response) if response.status() < 300 => return decode(response.status(), response),
        Ok(response) => (response.status(), response),
        Err(ureq::Error::Status(status, response)) => (status, response),
        // ureq's own words would show the key.
        Err(ureq::Error::Transport(problem)) if problem.kind() == ureq::ErrorKind::BadHeader => {
            return Err(Error::Invalid("the API key holds a character that no key has".into()))
        }
        Err(ureq::Error::Transport(problem)) => return Err(Error::Unreachable(problem.into())),
    };
    #[derive(Deserialize)]
    struct Answer {
        error: Refusal,
        request_id: Option<String>,
    }
    let Answer { error, request_id } = decode(status, response)?;
    Err(Error::Refused(Box::new(Refusal { status, request_id, ..error })))
}

/// Typed right away: an i64 or a `serde_json::Number` never passes through a double.
fn decode<T: DeserializeOwned>(status: u16, response: ureq::Response) -> Result<T> {
    serde_json::from_reader(io::BufReader::new(response.into_reader())).map_err(|problem| {
        if problem.is_io() {
            Error::Unreachable(problem.into())
        } else {
            Error::Unexpected { status, problem: problem.to_string() }
        }
    })
}

fn table_path(table: &str) -> String {
    format!("/tables/{}", segment(table))
}

fn segment(name: &str) -> String {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
    utf8_percent_encode(name, ESCAPED).to_string()
}
