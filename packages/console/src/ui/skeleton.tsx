// Grey lines where content is about to be. They appear late (see states.css), so that a fast answer shows no flicker.
const widths = ['w60', 'w80', 'w40', 'w70', 'w50'];

export function Skeleton({ lines = 5, label = 'Loading' }: { lines?: number; label?: string }) {
  return (
    <div className="skeleton" role="status" aria-label={label}>
      {Array.from({ length: lines }, (_, index) => `line ${index}`).map((key, index) => (
        <span key={key} className={`skeleton-line ${widths[index % widths.length]}`} />
      ))}
    </div>
  );
}
