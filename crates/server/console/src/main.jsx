import 'uplot/dist/uPlot.min.css';
import './app.css';
import { render } from 'preact';
import { App } from './app.jsx';
import { session } from './server/session.js';
import { applyTheme } from './ui/theme.jsx';

applyTheme();
render(<App />, document.getElementById('app'));
session.start();
