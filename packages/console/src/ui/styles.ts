// The styles of the design system.
import './tokens.css';
import './base.css';
import './controls.css';
import './overlays.css';
import './page.css';
import './list.css';
import './states.css';
import './code.css';
