// An error in a screen leaves the rest of the page usable. A new version of the service has other file names, so a part
// that cannot be loaded asks for a reload.
import { Component, type ReactNode } from 'react';
import { Button } from '../ui/button.tsx';
import { EmptyState } from '../ui/empty-state.tsx';

export class Crash extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return (
      <EmptyState
        isPage
        icon="alert"
        title="This screen stopped working"
        action={<Button onClick={() => location.reload()}>Reload the page</Button>}
      >
        {this.state.error.message}
      </EmptyState>
    );
  }
}
