// Entry of the page, with all styles of the first screen. Heavy parts import their own.
import { createRoot } from 'react-dom/client';
import './ui/styles.ts';
import './shell/shell.css';
import './session/sign-in.css';
import { App } from './app.tsx';
import { applyTheme } from './theme/theme.ts';

applyTheme();
const root = document.getElementById('root');
if (root) createRoot(root).render(<App />);
