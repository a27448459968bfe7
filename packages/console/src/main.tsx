// Entry of the page.
import { createRoot } from 'react-dom/client';
import './ui/styles.ts';
import { App } from './app.tsx';
import { applyTheme } from './theme/theme.ts';

applyTheme();
const root = document.getElementById('root');
if (root) createRoot(root).render(<App />);
