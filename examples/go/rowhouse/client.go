// Package rowhouse is a client for Rowhouse on the standard library alone. Copy it into your project.
package rowhouse

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client talks to one project. Many goroutines can use one.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New makes a client from the service's address, an API key and the project's slug.
// A request has 35 seconds, since a query has 30; a context with a deadline shortens that.
func New(address, apiKey, project string) *Client {
	return &Client{
		base: strings.TrimRight(address, "/") + "/api/dbaas/v2/projects/" + url.PathEscape(project),
		key:  apiKey,
		http: &http.Client{
			Timeout: 35 * time.Second,
			// The service sends nobody elsewhere; whoever does shall not get the key.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Error is a request that the service refused. Programs decide by Code; Message and Hint are for people.
type Error struct {
	Status    int             `json:"-"`
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	Hint      string          `json:"hint"`
	Details   json.RawMessage `json:"details"`
	RequestID string          `json:"-"`
}

func (e *Error) Error() string {
	return strings.TrimSpace(e.Message + " " + e.Hint)
}

// User is an end user of the project's application.
type User struct {
	ID    string          `json:"id"`
	Email string          `json:"email"`
	Role  string          `json:"role"`
	Data  json.RawMessage `json:"data"`
}

// Session is what signing up and signing in give.
type Session struct {
	AccessToken  string    `json:"access_token"`
	RefreshToken string    `json:"refresh_token"`
	ExpiresAt    time.Time `json:"expires_at"`
}

// Signed is a user and the session that has begun.
type Signed struct {
	User    User    `json:"user"`
	Session Session `json:"session"`
}

// SignUp makes a new user. data may be nil.
func (c *Client) SignUp(ctx context.Context, email, password string, data map[string]any) (Signed, error) {
	body := map[string]any{"email": email, "password": password}
	if data != nil {
		body["data"] = data
	}
	return send[Signed](ctx, c, http.MethodPost, "/auth/signup", body)
}

// SignIn begins a session of a user.
func (c *Client) SignIn(ctx context.Context, email, password string) (Signed, error) {
	body := map[string]any{"email": email, "password": password}
	return send[Signed](ctx, c, http.MethodPost, "/auth/signin", body)
}

// Result is what a query gave. T is a struct, or map[string]any, in which numbers are json.Number.
type Result[T any] struct {
	Columns   []string `json:"columns"`
	Rows      []T      `json:"rows"`
	Command   string   `json:"command"`
	Affected  int64    `json:"affected"`
	Truncated bool     `json:"truncated"`
}

// Query runs one statement with values for $1 … $n.
func Query[T any](ctx context.Context, c *Client, sql string, params ...any) (Result[T], error) {
	if params == nil {
		params = []any{}
	}
	body := map[string]any{"query": sql, "params": params}
	return send[Result[T]](ctx, c, http.MethodPost, "/query", body)
}

// Exec runs one statement whose rows do not matter, and tells how many it affected.
func (c *Client) Exec(ctx context.Context, sql string, params ...any) (int64, error) {
	result, err := Query[map[string]any](ctx, c, sql, params...)
	return result.Affected, err
}

// Insert stores one row and gives it back with its defaults.
func Insert[T any](ctx context.Context, c *Client, table string, row any) (T, error) {
	answer, err := send[struct {
		Row T `json:"row"`
	}](ctx, c, http.MethodPost, tablePath(table), row)
	return answer.Row, err
}

// InsertMany stores all rows or none.
func InsertMany[T, R any](ctx context.Context, c *Client, table string, rows []R) ([]T, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	answer, err := send[struct {
		Rows []T `json:"rows"`
	}](ctx, c, http.MethodPost, tablePath(table), rows)
	return answer.Rows, err
}

// Page is one page of a table.
type Page[T any] struct {
	Rows       []T    `json:"rows"`
	HasMore    bool   `json:"has_more"`
	NextCursor string `json:"next_cursor"`
}

// GetPage reads one page: limit, page, cursor, select, order, and filters such as {"price": {"lt.10"}}.
func GetPage[T any](ctx context.Context, c *Client, table string, parameters url.Values) (Page[T], error) {
	return send[Page[T]](ctx, c, http.MethodGet, tablePath(table)+"?"+parameters.Encode(), nil)
}

// EachPage visits all pages, by cursor: each costs the same, however deep. Views have none, and go by number.
func EachPage[T any](
	ctx context.Context, c *Client, table string, parameters url.Values, visit func(rows []T) error,
) error {
	asked := url.Values{}
	for name, values := range parameters {
		asked[name] = values
	}
	number, err := strconv.Atoi(asked.Get("page"))
	if err != nil {
		number = 1
	}
	for {
		page, err := GetPage[T](ctx, c, table, asked)
		if err != nil {
			return err
		}
		if err := visit(page.Rows); err != nil {
			return err
		}
		if !page.HasMore {
			return nil
		}
		number++
		asked.Del("page")
		if page.NextCursor != "" {
			asked.Set("cursor", page.NextCursor)
		} else {
			asked.Set("page", strconv.Itoa(number))
		}
	}
}

func tablePath(table string) string {
	return "/tables/" + url.PathEscape(table)
}

// Methods have no type parameters in Go, so this is a function.
func send[T any](ctx context.Context, c *Client, method, path string, body any) (answer T, err error) {
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer, fmt.Errorf("rowhouse: %w", err)
		}
		payload = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return answer, fmt.Errorf("rowhouse: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer, fmt.Errorf("rowhouse: there was no answer from the service: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return answer, refusal(response)
	}
	decoder := json.NewDecoder(response.Body)
	// Else a number in an any would become a float64, and a large one would lose digits.
	decoder.UseNumber()
	if err := decoder.Decode(&answer); err != nil {
		return answer, fmt.Errorf("rowhouse: the answer could not be read: %w", err)
	}
	return answer, nil
}

func refusal(response *http.Response) error {
	var answer struct {
		Error     *Error `json:"error"`
		RequestID string `json:"request_id"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Error == nil {
		return fmt.Errorf("rowhouse: this is no answer of Rowhouse (HTTP %d)", response.StatusCode)
	}
	answer.Error.Status = response.StatusCode
	answer.Error.RequestID = answer.RequestID
	return answer.Error
}
