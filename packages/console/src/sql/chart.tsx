// The chart of a result, with the choice of its columns. Loaded when it is first opened.
import type { QueryResponse } from '@rowhouse/api';
import { useMemo, useState } from 'react';
import { EmptyState } from '../ui/empty-state.tsx';
import { CheckField, SelectField } from '../ui/field.tsx';
import { chartColumns, chartData, firstChoice, seriesMax } from './chart-data.ts';
import { Plot, type Shape } from './plot.tsx';
import './chart.css';

export function Chart({ result }: { result: QueryResponse }) {
  const [chosen, setChosen] = useState(() => firstChoice(result));
  const [shape, setShape] = useState<Shape | null>(null);
  const [point, setPoint] = useState<number | null>(null);
  const offered = chartColumns(result);
  const data = useMemo(() => (chosen ? chartData(result, chosen.x, chosen.y) : null), [result, chosen]);
  if (!chosen || !data) {
    return (
      <EmptyState icon="usage" title="There is nothing to draw">
        A chart needs a column with numbers.
      </EmptyState>
    );
  }
  const drawn = shape ?? (data.kind === 'order' ? 'bar' : 'line');
  const toggle = (name: string, isOn: boolean) => {
    const rest = chosen.y.filter((one) => one !== name);
    setChosen({ ...chosen, y: isOn ? [...rest, name].slice(-seriesMax) : rest });
  };
  return (
    <div className="chart-screen">
      <div className="chart-choice">
        <SelectField
          label="X axis"
          value={chosen.x}
          options={offered.x}
          onChange={(x) => setChosen({ ...chosen, x })}
        />
        <SelectField
          label="Shape"
          value={drawn}
          options={[
            { value: 'line', label: 'Lines' },
            { value: 'bar', label: 'Bars' },
          ]}
          onChange={(value) => setShape(value === 'bar' ? 'bar' : 'line')}
        />
        <fieldset className="chart-series">
          <legend>Y axis</legend>
          {offered.y.map((name) => (
            <CheckField
              key={name}
              label={name}
              checked={chosen.y.includes(name)}
              onChange={(isOn) => toggle(name, isOn)}
            />
          ))}
        </fieldset>
      </div>
      <figure className="chart-figure">
        <Plot
          data={data}
          names={chosen.y}
          shape={drawn}
          label={`${chosen.y.join(', ')} by ${chosen.x}`}
          onPoint={setPoint}
        />
        <figcaption className="chart-values">
          <span className="faint">
            {point === null ? chosen.x : `${chosen.x}: ${data.labels[point] ?? ''}`}
          </span>
          {chosen.y.map((name, index) => (
            <span key={name} className="row">
              <span className={`chart-swatch series-${index + 1}`} aria-hidden="true" />
              {name}
              {point === null ? null : <b>{valueText(data.series[index]?.[point])}</b>}
            </span>
          ))}
        </figcaption>
      </figure>
    </div>
  );
}

const numbers = new Intl.NumberFormat('en', { maximumFractionDigits: 6 });
const valueText = (value: number | null | undefined) => (value == null ? '–' : numbers.format(value));
