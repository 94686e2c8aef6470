CREATE CONNECTION a kafka ( topic = 'orders' );
CREATE CONNECTION b TO ( topic = 'orders' );
CREATE CONNECTION c TO kafka topic = 'orders';
CREATE CONNECTION d TO kafka;
CREATE CONNECTION 'e' TO kafka ( topic = 'orders' );
CREATE CONNECTION TO kafka ( topic = 'orders' );
CREATE OR REPALCE CONNECTION f TO kafka ( topic = 'orders' );
CREATE CONNECTION IF EXISTS g TO kafka ( topic = 'orders' );
CREATE OR REPLACE CONNECTION IF NOT EXISTS h TO kafka ( topic = 'orders' );
