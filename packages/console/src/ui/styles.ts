// All styles of the first screen. Heavy parts import their own.
import './tokens.css';
import './base.css';
import './controls.css';
import './overlays.css';
import './page.css';
import './list.css';
import './states.css';
import './code.css';
import '../shell/shell.css';
import '../session/sign-in.css';
