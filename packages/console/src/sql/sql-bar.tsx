import { isUnsaved, type Tab, type Tabs, titleOf } from '../drafts/drafts.ts';
import { mayWrite } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { Icon } from '../ui/icons.tsx';

type StripProps = {
  tabs: Tabs;
  onShow: (id: string) => void;
  onClose: (tab: Tab) => void;
  onCreate: () => void;
};

export function TabStrip({ tabs, onShow, onClose, onCreate }: StripProps) {
  return (
    <div className="sql-tabs" role="toolbar" aria-label="Open queries">
      {tabs.open.map((tab) => (
        <span key={tab.id} className={tab.id === tabs.current ? 'sql-tab sql-tab-on' : 'sql-tab'}>
          <button type="button" aria-pressed={tab.id === tabs.current} onClick={() => onShow(tab.id)}>
            {titleOf(tab)}
          </button>
          <IconButton
            label={`Close ${titleOf(tab)}`}
            size="small"
            icon={<Icon name="close" size={12} />}
            onClick={() => onClose(tab)}
          />
        </span>
      ))}
      <IconButton label="New query" size="small" icon={<Icon name="plus" />} onClick={onCreate} />
    </div>
  );
}

type BarProps = {
  tab: Tab;
  /** Why the draft is not on the server. */
  problem: string | null;
  isRunning: boolean;
  onRun: () => void;
  onCancel: () => void;
  onExplain: () => void;
  onAnalyze: () => void;
  onSave: () => void;
  onLibrary: () => void;
  onCode: () => void;
};

export function SqlBar(props: BarProps) {
  const { tab, problem, isRunning } = props;
  const isSaved = tab.saved !== null && tab.text === tab.saved.text;
  // A viewer cannot store texts.
  const isWritable = mayWrite(useSession());
  return (
    <div className="sql-bar">
      {isRunning ? (
        <Button size="small" icon={<Icon name="stop" />} onClick={props.onCancel}>
          Cancel
        </Button>
      ) : (
        <Button size="small" kind="primary" icon={<Icon name="play" />} onClick={props.onRun}>
          Run
        </Button>
      )}
      <Button size="small" kind="ghost" onClick={props.onExplain}>
        Explain
      </Button>
      <Button size="small" kind="ghost" onClick={props.onAnalyze}>
        Explain analyze
      </Button>
      <span className="grow" />
      <span
        className={problem ? 'sql-state note-bad' : 'sql-state faint'}
        role="status"
        title={problem ?? ''}
      >
        {problem ? 'Draft not stored' : isWritable ? stateOf(tab) : ''}
      </span>
      {isWritable ? (
        <Button
          size="small"
          kind="ghost"
          icon={<Icon name="save" />}
          disabled={isSaved || tab.text.trim() === ''}
          onClick={props.onSave}
        >
          Save
        </Button>
      ) : null}
      <Button size="small" kind="ghost" icon={<Icon name="logs" />} onClick={props.onLibrary}>
        Queries
      </Button>
      <Button size="small" kind="ghost" icon={<Icon name="api" />} onClick={props.onCode}>
        As code
      </Button>
    </div>
  );
}

function stateOf(tab: Tab): string {
  if (tab.text.trim() === '') return '';
  if (isUnsaved(tab)) return 'Storing …';
  return tab.saved && tab.text === tab.saved.text ? 'Saved' : 'Draft stored';
}
