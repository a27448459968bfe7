// Users, rows and queries with Rowhouse. See README.md.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"time"

	"example.com/rowhouse-example/rowhouse"
)

// A json.Number has all digits of a numeric; an int64 those of a bigint.
type tea struct {
	UserID  string      `json:"user_id,omitempty"`
	Name    string      `json:"name"`
	Price   json.Number `json:"price"`
	Barcode *int64      `json:"barcode,omitempty"`
}

func main() {
	// Ctrl-C cancels the request that is under way, and the service its statement.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, explain(err))
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	names := []string{"ROWHOUSE_URL", "ROWHOUSE_API_KEY", "ROWHOUSE_PROJECT"}
	if missing := unset(names); len(missing) > 0 {
		return fmt.Errorf("please set %s: see README.md", strings.Join(missing, ", "))
	}
	key, project := os.Getenv("ROWHOUSE_API_KEY"), os.Getenv("ROWHOUSE_PROJECT")
	db := rowhouse.New(os.Getenv("ROWHOUSE_URL"), key, project)

	email, password := "ada+go-"+random()+"@example.com", random()
	signedUp, err := db.SignUp(ctx, email, password, map[string]any{"name": "Ada"})
	if err != nil {
		return err
	}
	fmt.Println("signed up:", signedUp.User.Email)

	signedIn, err := db.SignIn(ctx, email, password)
	if err != nil {
		return err
	}
	claims, err := rowhouse.VerifyToken(signedIn.Session.AccessToken, key, project)
	if err != nil {
		return fmt.Errorf("the token is refused: %w", err)
	}
	until := time.Unix(claims.ExpiresAt, 0).UTC().Format("2006-01-02 15:04 UTC")
	fmt.Printf("signed in: %s, until %s\n", claims.Role, until)

	if err := insertTeas(ctx, db, claims.Subject); err != nil {
		return err
	}
	if err := readTeas(ctx, db, claims.Subject); err != nil {
		return err
	}

	_, err = rowhouse.GetPage[tea](ctx, db, "example_tea", nil)
	var refused *rowhouse.Error
	if !errors.As(err, &refused) || refused.Code != "table_not_found" {
		return fmt.Errorf("expected table_not_found, got %v", err)
	}
	fmt.Printf("refused: %d %s: %v\n", refused.Status, refused.Code, refused)
	fmt.Println("done")
	return nil
}

func insertTeas(ctx context.Context, db *rowhouse.Client, userID string) error {
	_, err := db.Exec(ctx, `create table if not exists example_teas (
		id bigint generated always as identity primary key,
		user_id uuid not null references auth.users on delete cascade,
		name text not null,
		price numeric(10, 2) not null,
		barcode bigint)`)
	if err != nil {
		return err
	}
	// More than 2^53, where a float64 would lose the last digit.
	barcode := int64(1)<<53 + 1
	row := tea{UserID: userID, Name: "Assam", Price: "4.50", Barcode: &barcode}
	stored, err := rowhouse.Insert[tea](ctx, db, "example_teas", row)
	if err != nil {
		return err
	}
	if stored.Barcode == nil || *stored.Barcode != barcode {
		return errors.New("the barcode came back as another")
	}
	fmt.Printf("inserted: %s at %s, barcode %d\n", stored.Name, stored.Price, *stored.Barcode)

	many, err := rowhouse.InsertMany[tea](ctx, db, "example_teas", []tea{
		{UserID: userID, Name: "Genmaicha 玄米茶", Price: "12.00"},
		{UserID: userID, Name: `Earl Grey, "the Queen's"`, Price: "9.99"},
		{UserID: userID, Name: "Mate", Price: "3.80"},
		{UserID: userID, Name: "Oolong", Price: "21.50"},
	})
	if err != nil {
		return err
	}
	fmt.Printf("inserted: %d more\n", len(many))
	return nil
}

func readTeas(ctx context.Context, db *rowhouse.Client, userID string) error {
	parameters := url.Values{"user_id": {"eq." + userID}, "limit": {"2"}}
	number := 0
	err := rowhouse.EachPage(ctx, db, "example_teas", parameters, func(rows []tea) error {
		number++
		var names []string
		for _, row := range rows {
			names = append(names, row.Name)
		}
		fmt.Printf("page %d: %s\n", number, strings.Join(names, " | "))
		return nil
	})
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	result, err := rowhouse.Query[tea](ctx, db,
		"select name, price from example_teas where user_id = $1 and price < $2 order by price", userID, 10)
	if err != nil {
		return err
	}
	var found []string
	for _, row := range result.Rows {
		found = append(found, row.Name+" "+row.Price.String())
	}
	fmt.Println("under 10:", strings.Join(found, " | "))
	return nil
}

func explain(err error) string {
	var refused *rowhouse.Error
	if errors.As(err, &refused) {
		return refused.Code + ": " + refused.Error()
	}
	return err.Error()
}

func unset(names []string) (missing []string) {
	for _, name := range names {
		if os.Getenv(name) == "" {
			missing = append(missing, name)
		}
	}
	return missing
}

func random() string {
	bytes := make([]byte, 8)
	if _, err := rand.Read(bytes); err != nil {
		panic(err)
	}
	return hex.EncodeToString(bytes)
}
