// From a dialog to the tables of a project.
import { useLocation } from 'wouter';
import { leaveFreely } from '../ui/leaving.ts';

/** Returns what opens the project. `onClose`: closes the dialog. */
export function useOpenProject(slug: string, onClose: () => void): () => void {
  const [, go] = useLocation();
  return () => {
    leaveFreely(() => go(`/projects/${slug}/tables`));
    onClose();
  };
}
