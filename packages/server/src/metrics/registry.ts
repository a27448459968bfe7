// Registers metrics with prom-client. metrics.ts declares them; http-requests.ts adds those of HTTP requests.
import { setTimeout as sleep } from 'node:timers/promises';
import { Counter, Gauge, Registry } from 'prom-client';

/** Values that are read when the metrics are requested. `isOwn`: each process has its own, and the sum is reported. */
export type Gauges = Record<string, { help: string; isOwn?: true; read: () => number | Promise<number> }>;

/** The same for each server of the installation, by its name. Only an operator can add one. */
export type LabelledGauges = Record<
  string,
  {
    help: string;
    label: string;
    isOwn?: true;
    read: () => Record<string, number> | Promise<Record<string, number>>;
  }
>;

/** Values that only rise, with one label of few values. Each process counts its own; the sums are reported. */
export type Counters = Record<string, { help: string; label: string; read: () => Record<string, number> }>;

/** A value that takes longer than this to read is reported as NaN. */
const maxReadMs = 2_000;

export function createRegistry(
  gauges: Gauges,
  counters: Counters = {},
  labelled: LabelledGauges = {},
): Registry {
  const registry = new Registry();
  addGauges(registry, gauges);
  addLabelledGauges(registry, labelled);
  addCounters(registry, counters);
  return registry;
}

function addGauges(registry: Registry, gauges: Gauges): void {
  for (const [name, { help, isOwn, read }] of Object.entries(gauges)) {
    new Gauge({
      name,
      help,
      registers: [registry],
      // Most values are the same in every worker: their sum would be wrong.
      aggregator: isOwn ? 'sum' : 'max',
      async collect() {
        // A gauge that cannot be read must not fail the others.
        const late = sleep(maxReadMs, Number.NaN, { ref: false });
        this.set(await Promise.race([Promise.resolve(read()).catch(() => Number.NaN), late]));
      },
    });
  }
}

function addLabelledGauges(registry: Registry, gauges: LabelledGauges): void {
  for (const [name, { help, label, isOwn, read }] of Object.entries(gauges)) {
    new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [registry],
      aggregator: isOwn ? 'sum' : 'max',
      async collect() {
        const late = sleep(maxReadMs, {}, { ref: false });
        const found = await Promise.race([Promise.resolve(read()).catch(() => ({})), late]);
        this.reset();
        for (const [value, number] of Object.entries(found)) this.set({ [label]: value }, number);
      },
    });
  }
}

function addCounters(registry: Registry, counters: Counters): void {
  for (const [name, { help, label, read }] of Object.entries(counters)) {
    new Counter({
      name,
      help,
      labelNames: [label],
      registers: [registry],
      collect() {
        this.reset();
        for (const [value, count] of Object.entries(read())) this.inc({ [label]: value }, count);
      },
    });
  }
}
