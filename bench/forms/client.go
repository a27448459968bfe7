// Sends queries with net/http for some seconds: the program of the suite `forms`. Its argument and its output are JSON.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

type load struct {
	URL         string            `json:"url"`
	Headers     map[string]string `json:"headers"`
	Before      string            `json:"before"`
	After       string            `json:"after"`
	HighestID   int               `json:"highestId"`
	Connections int               `json:"connections"`
	Seconds     float64           `json:"seconds"`
}

type answer struct {
	Rows []map[string]any `json:"rows"`
}

func ask(client *http.Client, given load) (float64, error) {
	body := fmt.Sprintf("%s%d%s", given.Before, 1+rand.Intn(given.HighestID), given.After)
	began := time.Now()
	request, err := http.NewRequest("POST", given.URL, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range given.Headers {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var read answer
	if err := json.NewDecoder(response.Body).Decode(&read); err != nil {
		return 0, err
	}
	if response.StatusCode != 200 || len(read.Rows) != 1 {
		return 0, fmt.Errorf("status %d with %d rows", response.StatusCode, len(read.Rows))
	}
	return float64(time.Since(began).Microseconds()) / 1000, nil
}

func main() {
	var given load
	if err := json.Unmarshal([]byte(os.Args[1]), &given); err != nil {
		panic(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: given.Connections}}
	began := time.Now()
	took := make([][]float64, given.Connections)
	var all sync.WaitGroup
	for n := range took {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Since(began).Seconds() < given.Seconds {
				ms, err := ask(client, given)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				took[n] = append(took[n], ms)
			}
		}()
	}
	all.Wait()
	seconds := time.Since(began).Seconds()
	list := []float64{}
	for _, part := range took {
		list = append(list, part...)
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"seconds": seconds, "took": list})
}
